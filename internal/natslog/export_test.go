package natslog

// SetReady sets whether the stream and the bucket count as there.
func (l *Log) SetReady(is bool) { l.isReady.Store(is) }
