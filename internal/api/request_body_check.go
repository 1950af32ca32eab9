package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// checkNoBody refuses what is sent to an operation that takes no body: whoever
// sends it means something by it. Nothing, null and {} say nothing. The error
// is that of a body that cannot be read to its end.
func checkNoBody(ctx huma.Context, f *requestFaults) error {
	if requestOf(ctx).ContentLength == 0 {
		return nil
	}
	raw, err := readBody(ctx, emptyBody+1)
	if err == nil && !saysNothing(raw) {
		f.addUnparsable("body", "this operation takes no body")
	}
	return err
}

const jsonSpace = " \t\r\n"

func saysNothing(body []byte) bool {
	body = bytes.Trim(body, jsonSpace)
	if inner, opened := bytes.CutPrefix(body, []byte("{")); opened {
		return string(bytes.TrimLeft(inner, jsonSpace)) == "}"
	}
	return len(body) == 0 || string(body) == "null"
}

// readBody reads a body of less bytes than a limit. The error is a problem.
func readBody(ctx huma.Context, limit int64) ([]byte, error) {
	from := ctx.BodyReader()
	if from == nil {
		return nil, nil
	}
	_ = ctx.SetReadDeadline(time.Now().Add(bodyGrace)) // a recorder has none
	defer func() { _ = ctx.SetReadDeadline(time.Time{}) }()
	raw, err := io.ReadAll(io.LimitReader(from, limit))
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case int64(len(raw)) == limit:
		return nil, tooLarge("The body", limit-1)
	case isNet && timeout.Timeout():
		return nil, newProblem(http.StatusRequestTimeout, "The body took too long to come.")
	case err != nil:
		return nil, newProblem(http.StatusBadRequest, unreadBody, err)
	}
	return raw, nil
}

// checkBody tells of a body whose request is refused anyway what is wrong with
// it. What a patch makes can be told only by what it changes, and what is no
// JSON by its type, or cannot be read, is another request's fault.
func (s *server) checkBody(ctx huma.Context, f *requestFaults) {
	op := ctx.Operation()
	media := op.RequestBody.Content["application/json"]
	if kind := ctx.Header("Content-Type"); media == nil || kind != "" && !isJSON(kind) {
		return
	}
	raw, err := readBody(ctx, op.MaxBodyBytes)
	schema := media.Schema
	if of, ok := op.Metadata[schemaKey].(func(contentType string, raw []byte) *huma.Schema); ok && err == nil {
		if schema = of(ctx.Header("Content-Type"), raw); schema == nil {
			return
		}
	}
	switch {
	case err != nil:
	case hasMoreValues(raw, maxValues): // a request that is answered costs less
	case len(raw) == 0:
		if op.RequestBody.Required {
			f.addUnparsable("body", "is required")
		}
	case !json.Valid(raw):
		f.addUnparsable("body", syntaxMessage(raw))
	case op.Method == http.MethodPatch:
		f.faults = append(f.faults, checkTexts(raw)...)
	default:
		f.faults = append(f.faults, join(checkTexts(raw), s.checkJSON(schema, raw))...)
	}
}

func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}
