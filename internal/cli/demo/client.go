package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/send"
)

// client sends webhooks as a provider does, and calls the API as a worker does.
type client struct {
	url     string
	key     string
	secrets map[string]string // by provider
}

const demoTenant = "acme"

// claimedItem is a claimed task or workflow.
type claimedItem struct {
	ID         string
	Kind       string
	Input      json.RawMessage
	State      json.RawMessage
	LeaseToken int64 `json:"lease_token"`
	Promises   []struct {
		Status string
		Value  json.RawMessage
	}
}

// send sends a sample to its source, signed with secret, or with the secret of the
// source if it is "".
func (c *client) send(ctx context.Context, s send.Sample, secret string) (status int, body []byte, err error) {
	if secret == "" {
		secret = c.secrets[s.Provider]
	}
	r, err := s.Request(ctx, c.url+ingest.Path(demoTenant, s.Provider), secret, time.Now())
	if err != nil {
		return 0, nil, err
	}
	return do(r)
}

// call calls the API of the tenant and fails unless the answer has the status.
func (c *client) call(ctx context.Context, method, path string, body any, status int, answer any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+strings.TrimSuffix(ingest.Path(demoTenant, ""), "/in/")+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	r.Header.Set("Content-Type", "application/json")
	code, got, err := do(r)
	if err == nil && code != status {
		err = fmt.Errorf("%s %s: want %d, got %d %s", method, path, status, code, got)
	}
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(got, answer)
}

// do sends a request and reads the answer.
func do(r *http.Request) (status int, body []byte, err error) {
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}
