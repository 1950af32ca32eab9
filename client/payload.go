package client

import (
	"context"
	"fmt"
	"io"
)

// Payload returns the exact bytes of an event's body and their content type. If the body was
// deleted because its retention is over, the error is a *Problem with status 404.
func (c *Client) Payload(ctx context.Context, tenant, id string, options ...CallOption) (contentType string, body []byte, err error) {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	resp, err := c.GetEventPayload(ctx, tenant, id, GetEventPayloadParams{}, options...)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxResponseBytes))
	if err != nil {
		return "", nil, fmt.Errorf("read the payload: %w", err)
	}
	return resp.Header.Get("Content-Type"), body, nil
}
