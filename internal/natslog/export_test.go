package natslog

// SetReady sets whether the stream and the bucket count as there.
func (l *Log) SetReady(is bool) { l.isReady.Store(is) }

// Pending returns the number of appends whose acknowledgement is awaited.
func (l *Log) Pending() int { return l.js.PublishAsyncPending() }
