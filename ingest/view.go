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

// decodes reports whether the source takes a request's content encoding:
// gzip, deflate or none, and one at most.
func decodes(header http.Header) bool {
	values := header["Content-Encoding"]
	if len(values) == 0 {
		return true
	}
	_, ok := payload.ParseEncoding(strings.Join(values, ","))
	return ok && len(values) == 1
}

// view looks into a request for its key and its type. account counts the memory
// of the decoded body and its JSON view. The error is chunks.ErrTooLong for a
// body that is larger than the source's limit when decoded, or the account's.
func (e *endpoint) view(header http.Header, body []byte, account chunks.Account) (*payload.View, error) {
	announced := ""
	if values := header["Content-Encoding"]; len(values) > 0 {
		announced, _ = payload.ParseEncoding(values[0])
	}
	content, err := e.content(announced, body, account)
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
	if len(content) > smallBody { // smaller ones are far from the limit
		m = meter.New(context.Background(), pathLimit, nil)
	}
	return payload.New(m, header, contentType, body).SetContent(content), nil
}

// pathLimit is beyond what looking up all of a source's paths takes in the
// largest body: a key must not be missed.
const pathLimit = 10 * meter.EventLimit

// content is the body without the encoding of payload.BodyEncoding, or as it is when
// it is not in that. announced is the encoding that the header names.
func (e *endpoint) content(announced string, body []byte, account chunks.Account) ([]byte, error) {
	encoding := payload.BodyEncoding(announced, body)
	if encoding == "" {
		return body, nil
	}
	decoded, err := payload.Decode(encoding, body, e.bodyLimit, account)
	switch {
	case err == nil:
		return decoded, nil
	case errors.Is(err, payload.ErrBadEncoding), announced == "" && errors.Is(err, chunks.ErrTooLong):
		return body, nil
	}
	return nil, err
}

// unlimited is the account of requests that are only explained.
type unlimited struct{}

func (unlimited) Take(int) error { return nil }
func (unlimited) Return(int)     {}
