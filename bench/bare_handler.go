package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

// secret signs all webhooks of the bench.
const secret = "bench-secret-bench-secret"

// serveBare serves the handler whose rate is the limit of accepting: the same router,
// verification and response, without a database. It returns when ctx ends.
func serveBare(ctx context.Context, address string) error {
	spec, faults := verify.Spec{Provider: "github", Secrets: []string{secret}}.Resolve()
	if err := faults.Err("the bench's verifier"); err != nil {
		return err
	}
	verifier, err := spec.New(nil)
	if err != nil {
		return err
	}
	e := echo.New()
	e.POST(ingest.Path(":tenant", ":source"), func(c echo.Context) error {
		r := c.Request()
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return c.NoContent(http.StatusBadRequest)
		}
		if verifier.Verify(r.Context(), &verify.Request{Method: r.Method, Header: r.Header, Body: body, At: time.Now()}) != nil {
			return c.NoContent(http.StatusUnauthorized)
		}
		id := eventhook.NewID[eventhook.Event](time.Now())
		return c.JSONBlob(http.StatusOK, []byte(`{"event_id":"`+id.String()+`","status":"accepted"}`))
	})
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("bare handler at", l.Addr())
	server := &http.Server{Handler: e, ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	_ = server.Serve(l) // closed when ctx ends
	return nil
}
