package ingest

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/eventhook/eventhook/internal/chunks"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/payload"
)

// isDecodable reports whether the content encoding of a request is supported: gzip or
// deflate, at most one encoding, or no encoding.
func isDecodable(header http.Header) bool {
	values := header["Content-Encoding"]
	if len(values) == 0 {
		return true
	}
	_, ok := payload.ParseEncoding(strings.Join(values, ","))
	return ok && len(values) == 1
}

// view returns a view of a request for looking up its key and its type. The memory of the
// decoded body and its JSON view is taken from account. The error is chunks.ErrTooLong if
// the decoded body is larger than the source's limit, or the error of account.
func (s *source) view(header http.Header, body []byte, account chunks.Account) (*payload.View, error) {
	announced := ""
	if values := header["Content-Encoding"]; len(values) > 0 {
		announced, _ = payload.ParseEncoding(values[0])
	}
	content, err := s.content(announced, body, account)
	if err != nil {
		return nil, err
	}
	contentType := header.Get("Content-Type")
	if len(content) > smallBody || !payload.IsJSON(contentType) {
		if err := account.Take(payload.MemoryCost(contentType, content)); err != nil {
			return nil, err
		}
	}
	var m *meter.Meter
	if len(content) > smallBody { // smaller bodies cannot reach the limit
		m = meter.New(context.Background(), pathLimit, nil)
	}
	return payload.New(m, header, contentType, body).SetContent(content), nil
}

// pathLimit exceeds the steps for looking up all paths of a source in the largest body, so
// that no key is missed.
const pathLimit = 10 * meter.EventLimit

// content decodes a body from its content encoding: the one that payload.BodyEncoding finds in
// the Content-Encoding header announced or in the body itself. A body that is not in this
// encoding is returned unchanged.
func (s *source) content(announced string, body []byte, account chunks.Account) ([]byte, error) {
	encoding := payload.BodyEncoding(announced, body)
	if encoding == "" {
		return body, nil
	}
	decoded, err := payload.Decode(encoding, body, s.bodyLimit, account)
	switch {
	case err == nil:
		return decoded, nil
	case errors.Is(err, payload.ErrBadEncoding), announced == "" && errors.Is(err, chunks.ErrTooLong):
		return body, nil
	}
	return nil, err
}

// unlimited is an account without a limit, for Explain.
type unlimited struct{}

func (unlimited) Take(int) error { return nil }
func (unlimited) Return(int)     {}
