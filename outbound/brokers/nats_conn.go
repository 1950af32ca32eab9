package brokers

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
)

// natsDialer connects to a server of NATS within the time of the first message. It makes the TLS
// handshake itself, so that natsConn reads what the server sends in plain text.
type natsDialer struct {
	ctx     context.Context //nolint:containedctx // nats.go passes none to its dialer
	brokers *Brokers
	ca      string
	secure  bool // TLS is required, also if the server does not require it

	maxMessage int
	credit     *credit

	refused error // of the last server that could not be dialled: nats.go does not return it if a server refuses
}

// SkipTLSHandshake tells nats.go that the connections of Dial use TLS where it is needed.
func (d *natsDialer) SkipTLSHandshake() bool { return true }

// Dial reads the first line of the server, which says whether it requires TLS, and makes the handshake.
func (d *natsDialer) Dial(_, address string) (net.Conn, error) {
	plain, err := d.brokers.dial(d.ctx, address, nil, d.credit)
	if err != nil {
		d.refused = err
		return nil, err
	}
	c := &natsConn{Conn: plain, max: d.maxMessage}
	err = within(d.ctx, plain, func() error { return c.start(d, address) })
	if err != nil {
		_ = plain.Close()
		return nil, err
	}
	return c, nil
}

// start reads the line INFO, which is the first that nats.go reads, and makes the TLS handshake.
func (c *natsConn) start(d *natsDialer, address string) error {
	info, err := readLine(c.Conn, maxNATSLine)
	if err != nil {
		return err
	}
	c.first = info
	var said struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	_, document, _ := bytes.Cut(info, []byte(" "))
	if json.Unmarshal(document, &said) != nil {
		return errNoNATS
	}
	if !said.Required && !d.secure {
		return nil
	}
	if !said.Required && !said.Available {
		return errNoTLS
	}
	c.Conn, err = handshake(d.ctx, c.Conn, address, d.brokers.TLSConfig(d.ca))
	return err
}

var errNoTLS = &Error{eventhook.ErrorTLS, "the server offers no TLS, which the scheme tls needs"}

var errNoNATS = &Error{eventhook.ErrorClosed, "the server does not speak the protocol of NATS"}

// readLine reads a line byte by byte: the handshake of TLS may follow it at once.
func readLine(c net.Conn, limit int) ([]byte, error) {
	line := make([]byte, 0, 1<<10)
	for one := make([]byte, 1); len(line) < limit; line = append(line, one[0]) {
		if len(line) > 0 && line[len(line)-1] == '\n' {
			return line, nil
		}
		if _, err := c.Read(one); err != nil {
			return nil, err
		}
	}
	return nil, errNoNATS
}

// Bounds of what a server of NATS may send, in bytes: a line, and a message to a publisher, which receives
// acknowledgements only.
const (
	maxNATSLine    = 128 << 10
	maxNATSMessage = 1 << 20
)

// natsConn is a connection to a server of NATS. It checks the lines that announce a message: nats.go
// allocates the announced size, and panics if there is not so much memory.
type natsConn struct {
	net.Conn
	max   int    // of a message
	first []byte // is read first
	line  []byte // the beginning of the present line
	left  int    // bytes of the present message, with its line end
}

func (c *natsConn) Read(p []byte) (n int, err error) {
	if len(c.first) > 0 {
		n = copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	n, err = c.Conn.Read(p)
	if wrong := c.check(p[:n]); wrong != nil {
		_ = c.Conn.Close()
		return 0, wrong
	}
	return n, err
}

// check follows the protocol through the next bytes of the server.
func (c *natsConn) check(b []byte) error {
	for len(b) > 0 {
		if c.left > 0 {
			n := min(c.left, len(b))
			c.left, b = c.left-n, b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n')
		part := b
		if end >= 0 {
			part = b[:end+1]
		}
		if c.line = append(c.line, part...); len(c.line) > maxNATSLine {
			return errNoNATS
		}
		b = b[len(part):]
		if end < 0 {
			return nil
		}
		size, err := announced(string(c.line), c.max)
		if err != nil {
			return err
		}
		c.line, c.left = c.line[:0], size
	}
	return nil
}

// announced returns the bytes of the message that follows a line, with its line end; 0 for other lines.
// The size is the last word of the lines MSG and HMSG.
func announced(line string, max int) (int, error) {
	words := strings.Fields(line)
	if len(words) == 0 || !strings.EqualFold(words[0], "MSG") && !strings.EqualFold(words[0], "HMSG") {
		return 0, nil
	}
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil || size < 0 {
		return 0, errNoNATS
	}
	if size > max {
		return 0, errTooLarge
	}
	if strings.EqualFold(words[0], "HMSG") { // the word before the last is the size of the headers, a part of the message
		headers, err := strconv.Atoi(words[len(words)-2])
		if err != nil || headers < 0 || headers > size {
			return 0, errNoNATS
		}
	}
	return size + len("\r\n"), nil
}
