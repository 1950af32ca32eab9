package worker_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/worker"
)

func nothing(context.Context, *worker.Job) error { return nil }

func TestAWorkerThatIsWronglyConfiguredSaysAllThatIsWrong(t *testing.T) {
	w := worker.New("https://hooks.example.com", key, worker.WithQueue(""), worker.WithConcurrency(0),
		worker.WithLease(1500*time.Millisecond), worker.WithDrain(-1), worker.WithLogger(nil)).
		Handle("", nothing).Handle("send", nil).Handle("build", nothing).Handle("build", nothing)
	err := w.Run(t.Context())
	if err == nil {
		t.Fatal("Run returned nil, want an error")
	}
	for _, want := range []string{
		"the queue has no name", "the concurrency is 0, want at least 1", "the lease is 1.5s, want whole seconds, from 1s to 1h",
		"the drain is -1ns, want none or a time", "the logger is nil", "a handler has no kind", `kind "send": its handler is nil`, `kind "build" has two handlers`,
		`the URL "https://hooks.example.com" must be the tenant's, such as https://hooks.example.com/api/tenants/acme/eventhook`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Run returned\n%v\nwant %q in it", err, want)
		}
	}
}

func TestAWorkerNeedsSomethingToDo(t *testing.T) {
	if err := worker.New(tenantURL, key).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "there is nothing to claim") {
		t.Errorf("Run returned %v, want that no kind has a handler", err)
	}
	w := worker.New(tenantURL, key)
	for i := range 101 {
		w.Handle(strings.Repeat("x", i+1), nothing)
	}
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "one more than the 100") {
		t.Errorf("Run returned %v, want that these are too many kinds", err)
	}
}

// TestAURLIsATenants wherever the gateway is; no error tells a secret.
func TestAURLIsATenants(t *testing.T) {
	const isCalled = "does not take the key: 401 Unauthorized"
	for _, c := range []struct{ url, key, want string }{
		{"https://h.example" + base, key, isCalled},
		{"https://h.example" + base + "/", key, isCalled},
		{"http://127.0.0.1:8080/hooks" + base, key, isCalled},
		{"https://h.example" + base + "/work", key, "must be the tenant's"},
		{"https://h.example/api/tenants//eventhook", key, "must be the tenant's"},
		{"https://h.example/api/tenants/a/b/eventhook", key, "must be the tenant's"},
		{"", key, "must be the tenant's"},
		{base, key, "must be a URL"},
		{"ftp://h.example" + base, key, "must be a URL"},
		{"https://u:s3cr3t@h.example/", key, "must be the tenant's"},
		{"https://u:s3cr3t@h.example" + base, key, "must have no user"},
		{"https://u:s3cr3t@h .example" + base, key, "is not a URL"},
		{tenantURL, "", "the key must be"},
		{tenantURL, "s3cr3t\n", "the key must be"},
	} {
		asked := ""
		refuses := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.String()
			problem(w, http.StatusUnauthorized, "")
		})
		h := &http.Client{Transport: inMemory{refuses}}
		err := worker.New(c.url, c.key, worker.WithHTTPClient(h)).Handle("send", nothing).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: Run returned %v, want an error that says %q and no secret", c.url, err, c.want)
		}
		if c.want == isCalled && asked != strings.TrimSuffix(c.url, "/")+"/work/claim" {
			t.Errorf("%s: asked %s", c.url, asked)
		}
	}
}
