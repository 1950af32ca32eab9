package ingest

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
)

// reply is the answer to a handshake.
type reply struct {
	status      int
	contentType string // empty: none, as where there is no body
	body        string
	header      http.Header
	// first is what must be done before the reply is true. It runs once the
	// request has been counted; a refusal of it is the answer instead.
	first func(ctx context.Context, h *Handler, c challenge) *refused
}

// emptyReply is 200 and nothing else.
func emptyReply() *reply { return &reply{status: http.StatusOK} }

func textReply(text string) *reply {
	return &reply{status: http.StatusOK, contentType: "text/plain; charset=utf-8", body: text}
}

// jsonReply is a JSON object; members are names and values.
func jsonReply(members map[string]string) *reply {
	body, err := json.Marshal(members)
	if err != nil {
		panic(err) // texts
	}
	return &reply{status: http.StatusOK, contentType: "application/json", body: string(body)}
}

// with adds a header.
func (p *reply) with(name, value string) *reply {
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Set(name, value)
	return p
}

// write answers. What is repeated was chosen by the sender, so it must not
// act as a page of ours.
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
