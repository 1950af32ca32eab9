package api_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// TestStalledBodyGetsTimeout: a body that stalls gets a 408, and its slot and memory
// are free afterwards.
func TestStalledBodyGetsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBudgetHarness(t, api.Limits{TenantBytes: 3 << 20})
		close(s.unblock) // the store does not wait
		key, path := s.key("acme"), T("acme")+"/work/"+eventhook.NewID[eventhook.Execution](noon).String()+"/complete"
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: s.router, ReadTimeout: time.Hour}
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		request := func(length int, begin string) string {
			return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				path, key, length, begin)
		}
		for _, length := range []int{2000, 70_000, 70_000, 70_000} { // a tenant has two slots for large bodies
			conn, served := net.Pipe()
			listener.conns <- served
			if _, err := io.WriteString(conn, request(length, "{")); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute)) // synthetic time
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%d bytes announced: no answer: %v", length, err)
			}
			var p problem
			err = json.NewDecoder(answer.Body).Decode(&p)
			if answer.StatusCode != http.StatusRequestTimeout || answer.Header.Get("Content-Type") != "application/problem+json" || !answer.Close ||
				err != nil || p.Status != http.StatusRequestTimeout || p.Detail != "The body was not received in time." {
				t.Errorf("%d bytes announced: answered %v %+v, want a problem with 408 and the end of the connection", length, answer, p)
			}
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%d bytes announced: after the answer: %v, want the end of the connection", length, err)
			}
			_ = conn.Close()
		}
		text := `{"lease_token":1,"output":"` + strings.Repeat("x", 70_000) + `"}`
		s.start(2, key, "POST", path, func() io.Reader { return strings.NewReader(text) }).want("after the stalled bodies", map[int]int{200: 2})
	})
}

func TestOnlyOperationsWithABodyDocumentTheTimeout(t *testing.T) {
	doc := api.Register(echo.New(), api.Deps{Keys: oneTenant{}, Now: time.Now}).OpenAPI()
	for path, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil && (op.Responses["408"] != nil) != (op.RequestBody != nil) {
				t.Errorf("%s %s: 408 is documented: %v; has a body: %v", op.Method, path, op.Responses["408"] != nil, op.RequestBody != nil)
			}
		}
	}
}
