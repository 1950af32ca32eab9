package brokers

import (
	"encoding/binary"
	"net"
	"sync"

	"github.com/eventhook/eventhook"
)

// The parts of a frame of AMQP 0-9-1 before and after its payload, and of a content header before its
// properties: class, weight and the size of the body.
const (
	amqpFrameHead  = 7
	amqpFrameEnd   = 1
	amqpBodySizeAt = 4
	amqpHeaderHead = 12
	amqpHeader     = 2 // the type of frames with a content header
)

// amqpOverhead is the memory of a message without its data and properties, in bytes.
const amqpOverhead = 512

var errAMQPPrefetch = &Error{eventhook.ErrorClosed, "the server sends more messages than the prefetch allows"}

var errNoAMQP = &Error{eventhook.ErrorClosed, "the server does not speak the protocol of AMQP 0-9-1"}

// amqpWindow is a connection to a server of AMQP 0-9-1 that reads no further message while the messages
// that were read and are not settled exceed a number of bytes: the prefetch limits their number only. It
// fails when the server exceeds the prefetch. It follows the frames of the server.
type amqpWindow struct {
	net.Conn
	max      int // bytes of messages that are not settled, before the last one, and of each one
	prefetch int // messages that are not settled

	mu      sync.Mutex
	changed *sync.Cond
	isEnded bool
	sizes   []int // of the messages that are not settled, in their order
	held    int   // their sum
	wrong   error // that the server did; nil if it did nothing wrong

	// Used by Read only.
	head [amqpFrameHead + amqpHeaderHead]byte // the beginning of the present frame
	have int                                  // bytes in head
	skip int                                  // bytes of the present frame behind head
	body int                                  // bytes of the present message that did not come yet
}

func newAMQPWindow(c net.Conn, max, prefetch int) *amqpWindow {
	w := &amqpWindow{Conn: c, max: max, prefetch: prefetch}
	w.changed = sync.NewCond(&w.mu)
	return w
}

// Read waits between two messages until messages were settled.
func (w *amqpWindow) Read(p []byte) (int, error) {
	if w.isFull() {
		p = p[:min(len(p), w.rest())] // up to the end of the frame
		if w.have == 0 && w.body == 0 && !w.await() {
			return 0, net.ErrClosed
		}
	}
	n, err := w.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		used, wrong := w.follow(rest)
		if wrong != nil {
			w.fail(wrong)
			return 0, wrong
		}
		rest = rest[used:]
	}
	return n, err
}

// rest returns how many bytes may be read without reading into the next frame.
func (w *amqpWindow) rest() int {
	if w.have < amqpFrameHead {
		return amqpFrameHead - w.have
	}
	return w.headSize() - w.have + w.skip
}

// headSize returns the bytes of the present frame that are kept in head.
func (w *amqpWindow) headSize() int {
	if w.have >= amqpFrameHead && w.head[0] == amqpHeader {
		return amqpFrameHead + amqpHeaderHead
	}
	return amqpFrameHead
}

// follow reads the next bytes of the server, and returns how many.
func (w *amqpWindow) follow(b []byte) (used int, err error) {
	if want := w.headSize(); w.have < want {
		used = copy(w.head[w.have:want], b)
		w.have += used
		switch {
		case w.have == amqpFrameHead:
			w.skip = w.payload() + amqpFrameEnd - (w.headSize() - amqpFrameHead)
		case w.have == amqpFrameHead+amqpHeaderHead:
			err = w.begin()
		}
		if w.skip < 0 {
			return 0, errNoAMQP
		}
	} else {
		used = min(w.skip, len(b))
		w.skip -= used
	}
	if w.have == w.headSize() && w.skip == 0 {
		const bodyFrame = 3
		if w.head[0] == bodyFrame {
			w.body = max(0, w.body-w.payload())
		}
		w.have = 0
	}
	return used, err
}

func (w *amqpWindow) payload() int {
	const sizeAt = 3
	return int(binary.BigEndian.Uint32(w.head[sizeAt:]))
}

// begin counts a message, whose content header was read.
func (w *amqpWindow) begin() error {
	size := binary.BigEndian.Uint64(w.head[amqpFrameHead+amqpBodySizeAt:])
	if size > uint64(w.max) {
		return errTooLarge
	}
	w.body = int(size)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sizes) == w.prefetch {
		return errAMQPPrefetch
	}
	total := w.body + w.payload() + amqpOverhead // the properties may be large, too
	w.sizes = append(w.sizes, total)
	w.held += total
	return nil
}

func (w *amqpWindow) isFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held > w.max
}

// await waits until the window is not full. It returns false when the connection is closed.
func (w *amqpWindow) await() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.held > w.max && !w.isEnded {
		w.changed.Wait()
	}
	return !w.isEnded
}

// settled says that the first n messages are settled.
func (w *amqpWindow) settled(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(n, len(w.sizes))
	for _, size := range w.sizes[:n] {
		w.held -= size
	}
	w.sizes = withoutFirst(w.sizes, n)
	w.changed.Broadcast()
}

// fail closes the connection because of what the server did. amqp091-go does not pass errors of Read on.
func (w *amqpWindow) fail(wrong error) {
	w.mu.Lock()
	w.wrong = wrong
	w.mu.Unlock()
	_ = w.Conn.Close()
}

// failure describes an error of the consumer. What the server did wrong counts more than err.
func (w *amqpWindow) failure(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.wrong != nil {
		return w.wrong
	}
	return amqpConsumerFailure(err)
}

// Close implements net.Conn.
func (w *amqpWindow) Close() error {
	w.mu.Lock()
	w.isEnded = true
	w.changed.Broadcast()
	w.mu.Unlock()
	return w.Conn.Close()
}
