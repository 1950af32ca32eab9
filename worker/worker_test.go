package worker_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/httpguard/httpguardtest"
	"github.com/eventhook/eventhook/worker"
)

func noop(context.Context, *worker.Job) error { return nil }

func TestRunReturnsEveryFaultOfTheConfiguration(t *testing.T) {
	w := worker.New("https://hooks.example.com", key, worker.WithQueue(""), worker.WithConcurrency(0),
		worker.WithLease(1500*time.Millisecond), worker.WithDrain(-1), worker.WithLogger(nil)).
		Handle("", noop).Handle("send", nil).Handle("build", noop).Handle("build", noop)
	err := w.Run(t.Context())
	if err == nil {
		t.Fatal("Run returned nil, want an error")
	}
	for _, want := range []string{
		"the queue is empty", "the concurrency is 0, want at least 1", "the lease is 1.5s, want whole seconds, from 1s to 1h",
		"the drain time is -1ns, want at least 0", "the logger is nil", "a handler has an empty kind", `kind "send": its handler is nil`, `kind "build" has two handlers`,
		`the URL "https://hooks.example.com" is not the URL of a tenant, such as https://hooks.example.com/api/tenants/acme/eventhook`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Run returned\n%v\nwant %q in it", err, want)
		}
	}
}

func TestNumberOfHandlers(t *testing.T) {
	if err := worker.New(tenantURL, key).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no handler is registered") {
		t.Errorf("Run returned %v, want that no handler is registered", err)
	}
	w := worker.New(tenantURL, key)
	for i := range 101 {
		w.Handle(strings.Repeat("x", i+1), noop)
	}
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "one more than the 100") {
		t.Errorf("Run returned %v, want that there are too many kinds", err)
	}
}

// The gateway may have a path prefix. No error contains a secret.
func TestTenantURL(t *testing.T) {
	const isCalled = "the key is not valid: 401 Unauthorized"
	for _, c := range []struct{ url, key, want string }{
		{"https://h.example" + base, key, isCalled},
		{"https://h.example" + base + "/", key, isCalled},
		{"http://127.0.0.1:8080/hooks" + base, key, isCalled},
		{"https://h.example" + base + "/work", key, "is not the URL of a tenant"},
		{"https://h.example/api/tenants//eventhook", key, "is not the URL of a tenant"},
		{"https://h.example/api/tenants/a/b/eventhook", key, "is not the URL of a tenant"},
		{"", key, "is not the URL of a tenant"},
		{base, key, "must be a URL"},
		{"ftp://h.example" + base, key, "must be a URL"},
		{"https://u:s3cr3t@h.example/", key, "is not the URL of a tenant"},
		{"https://u:s3cr3t@h.example" + base, key, "must have no user"},
		{"https://u:s3cr3t@h .example" + base, key, "is not a valid URL"},
		{tenantURL, "", "the key must be"},
		{tenantURL, "s3cr3t\n", "the key must be"},
	} {
		requested := ""
		unauthorized := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requested = r.URL.String()
			problem(w, http.StatusUnauthorized, "")
		})
		h := &http.Client{Transport: httpguardtest.Transport{Handler: unauthorized}}
		err := worker.New(c.url, c.key, worker.WithHTTPClient(h)).Handle("send", noop).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: Run returned %v, want an error with %q and without a secret", c.url, err, c.want)
		}
		if c.want == isCalled && requested != strings.TrimSuffix(c.url, "/")+"/work/claim" {
			t.Errorf("%s: the worker called %s", c.url, requested)
		}
	}
}
