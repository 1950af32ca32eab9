package brokers

import "github.com/eventhook/eventhook/consumers"

// pace decides how many messages a receiver asks for at once, so that they have few enough bytes, if the broker does
// not limit the bytes of its answer.
type pace struct {
	bytes    int // of the messages of an answer
	messages int // the maximum number of messages of an answer

	count   int // messages to ask for next
	largest int // bytes of the largest message; it halves with each answer of smaller ones
}

// newPace returns a pace that begins with one message.
func newPace(bytes, messages int) pace { return pace{bytes: bytes, messages: messages, count: 1} }

// adjust sets count after an answer to a request for a number of messages: at most four times as many, and so few
// that messages of the known sizes fit.
func (p *pace) adjust(requested int, list []*consumers.Message) {
	const growth, decay, overhead = 4, 2, 512
	p.largest = max(1, p.largest/decay)
	for _, m := range list {
		size := overhead + len(m.Data)
		for _, h := range m.Headers {
			size += len(h.Name) + len(h.Value)
		}
		p.largest = max(p.largest, size)
	}
	p.count = max(1, min(requested*growth, p.messages, p.bytes/p.largest))
}
