package ingest

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
)

// reply is the response to a handshake.
type reply struct {
	status      int
	contentType string // "" for a response without a body
	body        string
	header      http.Header
	// action, unless nil, runs after the request was counted against its rate limit and
	// before the reply is sent. If it returns a refusal, that is sent instead.
	action func(ctx context.Context, h *Handler, in received) *refusal
}

// emptyReply returns a 200 without a body.
func emptyReply() *reply { return &reply{status: http.StatusOK} }

func textReply(text string) *reply {
	return &reply{status: http.StatusOK, contentType: "text/plain; charset=utf-8", body: text}
}

// jsonReply returns a JSON object with the given members.
func jsonReply(members map[string]string) *reply {
	body, err := json.Marshal(members)
	if err != nil {
		panic(err) // strings always encode
	}
	return &reply{status: http.StatusOK, contentType: "application/json", body: string(body)}
}

// with adds a header and returns p.
func (p *reply) with(name, value string) *reply {
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Set(name, value)
	return p
}

// write sends the reply. Its text may have been chosen by the sender, so headers prevent a
// browser from running it as a page of the gateway.
func (p *reply) write(w http.ResponseWriter) {
	header := w.Header()
	maps.Copy(header, p.header)
	header["X-Content-Type-Options"], header["Content-Security-Policy"] = noSniff, sandbox
	if p.contentType != "" {
		header.Set("Content-Type", p.contentType)
	}
	w.WriteHeader(p.status)
	if p.body != "" {
		_, _ = io.WriteString(w, p.body) // the sender may be gone
	}
}
