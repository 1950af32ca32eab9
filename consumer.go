package eventhook

import "time"

// ConsumerStatus says whether the messages of a source are consumed.
type ConsumerStatus string

// The values of ConsumerStatus.
const (
	ConsumerRunning ConsumerStatus = "running" // an instance consumes the messages
	ConsumerWaiting ConsumerStatus = "waiting" // the gateway cannot take messages now
	ConsumerFailed  ConsumerStatus = "failed"  // the broker cannot be used; the gateway tries again
	ConsumerStopped ConsumerStatus = "stopped" // the source is disabled, or its tenant is not active
)

// ConsumerState is the state of a source that consumes messages, as its instance last told it.
type ConsumerState struct {
	Status   ConsumerStatus
	Error    string     // why it is not running, for users; "" if it is
	Since    time.Time  // when it got the status; of stopped: the last change of the source or the tenant
	Instance InstanceID // zero if no instance consumes the source
	Lag      *int64     // messages that wait at the broker; nil if the broker does not tell
}
