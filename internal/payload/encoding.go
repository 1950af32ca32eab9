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

// The supported content encodings.
const (
	gzipEncoding    = "gzip"
	deflateEncoding = "deflate"
)

// ParseEncoding parses the value of Content-Encoding: gzip, deflate, or "" for no
// encoding. ok is false for any other encoding, and for several encodings.
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

// ErrBadEncoding is returned for a body that is not in its content encoding.
var ErrBadEncoding = errors.New("the body is not in its content encoding")

// decoderBytes is an upper bound of the memory of a decompressor.
const decoderBytes = 64 << 10

// Decode decodes a body from an encoding that ParseEncoding returned. It takes the memory that
// it uses from the account: after success, only the result remains taken, and after an error
// nothing. The error is ErrBadEncoding, chunks.ErrTooLong for more than limit bytes, or the
// error of the account. A body that looks like JSON is not decoded as deflate, because the
// unsigned header can be forged: the error is ErrBadEncoding.
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

// decodeBy decodes a body. If it fails, it returns all bytes to the account.
func decodeBy(open func(io.Reader) (io.ReadCloser, error), body []byte, limit int, account chunks.Account) ([]byte, error) {
	in := bytes.NewReader(body)
	r, err := open(in)
	if err != nil {
		return nil, ErrBadEncoding
	}
	counted := &counter{account: account}
	var b chunks.Buffer
	err = b.Start(counted, nil, min(len(body), limit)+1, limit)
	if err == nil {
		err = b.Read(badEncodingReader{r}, -1)
	}
	var decoded []byte
	if err == nil {
		decoded, err = b.Join()
	}
	if err == nil && in.Len() > 0 { // trailing bytes
		err = ErrBadEncoding
	}
	if err != nil {
		account.Return(counted.taken)
		return nil, err
	}
	return decoded, nil
}

// counter is an Account that counts the bytes that were taken through it.
type counter struct {
	account chunks.Account
	taken   int
}

func (c *counter) Take(n int) error {
	err := c.account.Take(n)
	if err == nil {
		c.taken += n
	}
	return err
}

func (c *counter) Return(n int) {
	c.taken -= n
	c.account.Return(n)
}

// badEncodingReader wraps a decompressor's errors in ErrBadEncoding.
type badEncodingReader struct{ r io.Reader }

func (b badEncodingReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // decompressors do not wrap io.EOF
		err = fmt.Errorf("%w: %w", ErrBadEncoding, err)
	}
	return n, err
}

// unlimited is the Account for accepted bodies, whose size their source has limited.
type unlimited struct{}

func (unlimited) Take(int) error { return nil }
func (unlimited) Return(int)     {}

// Content returns the body decoded from its content encoding, and the body itself
// if it has no encoding or cannot be decoded. It decodes at most once, and at most
// eventhook.LargestMaxBodyBytes.
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

// SetContent sets the result of Content, for a body that was decoded before. It
// must be called before any other method. It returns v.
func (v *View) SetContent(decoded []byte) *View {
	v.isDecoded, v.decoded = true, decoded
	return v
}

// BodyEncoding returns the encoding of a body with a Content-Encoding header, "" for
// none. A body that begins like gzip or zlib is decoded for every value of the
// header: signatures rarely cover the header, and a replay without the header must
// have the same idempotency key and view.
func BodyEncoding(header string, body []byte) string {
	if shown := detectEncoding(body); shown != "" {
		return shown
	}
	announced, _ := ParseEncoding(header)
	return announced
}

// detectEncoding returns the encoding that the first bytes of a body identify, ""
// for none. JSON and forms never begin with these bytes.
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
