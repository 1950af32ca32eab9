package payload

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/chunks"
)

// Content encodings that a body can be decoded from.
const (
	gzipEncoding    = "gzip"
	deflateEncoding = "deflate"
)

// ParseEncoding reads the value of Content-Encoding: gzip, deflate, or "" for a body
// as it is. ok is false for any other encoding, and for several.
func ParseEncoding(value string) (name string, ok bool) {
	if value == "" {
		return "", true
	}
	for token := range strings.SplitSeq(value, ",") {
		switch token = strings.ToLower(strings.TrimSpace(token)); {
		case token == "" || token == "identity":
		case name != "":
			return "", false
		case token == gzipEncoding || token == "x-gzip": // RFC 9110, section 8.4.1.3
			name = gzipEncoding
		case token == deflateEncoding:
			name = deflateEncoding
		default:
			return "", false
		}
	}
	return name, true
}

// ErrBadEncoding reports a body that is not in its encoding.
var ErrBadEncoding = errors.New("the body is not in its content encoding")

// decoderBytes bounds the memory of a decompressor.
const decoderBytes = 64 << 10

// Decode returns a body without its content encoding, a result of ParseEncoding. The
// account hears of each allocation before it is made, and counts the result
// alone in the end. The error is ErrBadEncoding, chunks.ErrTooLong for more than
// limit bytes, or the account's. Bytes that are valid JSON are no deflate,
// whatever an unsigned header says: they are ErrBadEncoding.
func Decode(encoding string, body []byte, limit int, account chunks.Account) ([]byte, error) {
	if err := account.Take(decoderBytes); err != nil {
		return nil, err
	}
	defer account.Return(decoderBytes)
	switch {
	case encoding == gzipEncoding:
		return decodeBy(openGzip, body, limit, account)
	case encoding != deflateEncoding || looksLikeJSON(body):
		return nil, ErrBadEncoding
	}
	// Senders disagree whether deflate means zlib (RFC 9110, section 8.4.1.2)
	// or the bare stream.
	decoded, err := decodeBy(zlib.NewReader, body, limit, account)
	if errors.Is(err, ErrBadEncoding) {
		return decodeBy(openFlate, body, limit, account)
	}
	return decoded, err
}

func openGzip(r io.Reader) (io.ReadCloser, error)  { return gzip.NewReader(r) }
func openFlate(r io.Reader) (io.ReadCloser, error) { return flate.NewReader(r), nil }

// decodeBy gives back what it has taken from the account, unless it succeeds.
func decodeBy(open func(io.Reader) (io.ReadCloser, error), body []byte, limit int, account chunks.Account) ([]byte, error) {
	in := bytes.NewReader(body)
	r, err := open(in)
	if err != nil {
		return nil, ErrBadEncoding
	}
	taken := &counter{account: account}
	var b chunks.Buffer
	err = b.Start(taken, nil, min(len(body), limit)+1, limit)
	if err == nil {
		err = b.Read(brokenReader{r}, -1)
	}
	var decoded []byte
	if err == nil {
		decoded, err = b.Join()
	}
	if err == nil && in.Len() > 0 { // bytes behind the end
		err = ErrBadEncoding
	}
	if err != nil {
		account.Return(taken.held)
		return nil, err
	}
	return decoded, nil
}

// counter is an Account that knows how much was taken through it.
type counter struct {
	account chunks.Account
	held    int
}

func (c *counter) Take(n int) error {
	err := c.account.Take(n)
	if err == nil {
		c.held += n
	}
	return err
}

func (c *counter) Return(n int) {
	c.held -= n
	c.account.Return(n)
}

// brokenReader makes ErrBadEncoding of a decompressor's errors.
type brokenReader struct{ r io.Reader }

func (b brokenReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // decompressors return it as it is
		err = fmt.Errorf("%w: %w", ErrBadEncoding, err)
	}
	return n, err
}

// unlimited is the Account of bodies that were accepted: the limit of their
// source has bounded them.
type unlimited struct{}

func (unlimited) Take(int) error { return nil }
func (unlimited) Return(int)     {}

// Content is the body without its content encoding, and the body itself if it
// has none or is not in it. It decodes at most once, and never more than the
// largest body that any source takes.
func (v *View) Content() []byte {
	if v.isDecoded {
		return v.decoded
	}
	v.isDecoded, v.decoded = true, v.body
	if encoding := BodyEncoding(v.header.Get("Content-Encoding"), v.body); encoding != "" {
		if decoded, err := Decode(encoding, v.body, eventhook.LargestMaxBodyBytes, unlimited{}); err == nil {
			v.decoded = decoded
		}
	}
	return v.decoded
}

// WithContent tells a new view what Content is to return. It returns the view.
func (v *View) SetContent(decoded []byte) *View {
	v.isDecoded, v.decoded = true, decoded
	return v
}

// BodyEncoding is the encoding that a body is read in, given its Content-Encoding;
// "" for none. The header is seldom signed: a body that begins as gzip or zlib does is
// decoded whatever the header says, so that a captured request that is sent again
// without the header has the same key and the same view.
func BodyEncoding(header string, body []byte) string {
	if shown := detectEncoding(body); shown != "" {
		return shown
	}
	announced, _ := ParseEncoding(header)
	return announced
}

// detectEncoding is the encoding that a body shows by its first bytes, which no
// JSON and no form begins with; "" for any other.
func detectEncoding(body []byte) string {
	const zlibMethod, zlibCheck = 0x78, 31 // RFC 1950, section 2.2: deflate, window of 32 KiB
	switch {
	case bytes.HasPrefix(body, []byte("\x1f\x8b\x08")):
		return gzipEncoding
	case len(body) > 1 && body[0] == zlibMethod && (int(body[0])<<8|int(body[1]))%zlibCheck == 0:
		return deflateEncoding
	}
	return ""
}
