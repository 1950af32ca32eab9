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

// checkNoBody adds a fault if a request has a body although the operation takes
// none, since the caller expects an effect of it. Nothing, null and {} are accepted.
// The error is that of a body that cannot be read to its end.
func checkNoBody(ctx huma.Context, f *requestFaults) error {
	if requestOf(ctx).ContentLength == 0 {
		return nil
	}
	raw, err := readBody(ctx, emptyBody+1)
	if err == nil && !isEmptyBody(raw) {
		f.addUnparsable("body", "must be empty: this operation takes no body")
	}
	return err
}

const jsonSpace = " \t\r\n"

// isEmptyBody reports whether a body is absent, null or {}.
func isEmptyBody(body []byte) bool {
	body = bytes.Trim(body, jsonSpace)
	if inner, opened := bytes.CutPrefix(body, []byte("{")); opened {
		return string(bytes.TrimLeft(inner, jsonSpace)) == "}"
	}
	return len(body) == 0 || string(body) == "null"
}

// readBody reads a body of fewer bytes than limit. The error is a *problem.
func readBody(ctx huma.Context, limit int64) ([]byte, error) {
	from := ctx.BodyReader()
	if from == nil {
		return nil, nil
	}
	_ = ctx.SetReadDeadline(time.Now().Add(bodyGrace)) // not supported by httptest.ResponseRecorder
	defer func() { _ = ctx.SetReadDeadline(time.Time{}) }()
	raw, err := io.ReadAll(io.LimitReader(from, limit))
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case int64(len(raw)) == limit:
		return nil, tooLarge("The body", limit-1)
	case isNet && timeout.Timeout():
		return nil, newProblem(http.StatusRequestTimeout, bodyLate)
	case err != nil:
		return nil, newProblem(http.StatusBadRequest, unreadBody, err)
	}
	return raw, nil
}

// checkBody adds the faults of the body of a request that already has faults, so
// that the response names all of them. Not checked: the shape of a merge patch,
// which depends on the current state of the resource; bodies of content types other
// than JSON; bodies that cannot be read; and bodies with more than maxValues values,
// whose check would cost too much for a request that fails anyway.
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
	case hasMoreValues(raw, maxValues):
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
