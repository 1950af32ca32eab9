package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

const (
	clientSecret   = "a-client-secret-for-tests"
	targetPassword = "a-password-for-tests"
)

// newTokenEndpoint returns the URL of an OAuth 2 endpoint for client credentials. It issues
// token-1, token-2 and so on.
func newTokenEndpoint(t *testing.T) string {
	var issued atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != "gateway" || secret != clientSecret || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "hooks" {
			t.Errorf("the token endpoint got %s %v, want the client's credentials and the scope", r.Method, r.Form)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":3600}`, issued.Add(1))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/token"
}

// wantAuthorized waits for the next request, answers it, and checks its Authorization.
func (p *fakeReceiver) wantAuthorized(t *testing.T, claim, want string, answer int) {
	t.Helper()
	got := <-p.asked
	p.answer <- answer
	if authorization := got.header.Get("Authorization"); authorization != want {
		t.Errorf("%s: the Authorization is %q, want %q", claim, authorization, want)
	}
}

// A published event goes to a subscription with an OAuth 2 token, which the gateway renews after a
// 401, and a webhook goes to an http target with a password. Both were configured over HTTP, and no
// answer shows their secrets.
func TestDeliveriesAuthenticate(t *testing.T) {
	t.Parallel()
	gateway := startDelivering(t, pgtest.New(t))
	subscriber, target := newFakeReceiver(t), newFakeReceiver(t)
	const T = "/api/tenants/acme/eventhook"
	admin := func(want int, method, path, body string) {
		t.Helper()
		status, text := gateway.as(testAdminKey, engineer, method, path, body)
		if status != want || strings.Contains(text, clientSecret) || strings.Contains(text, targetPassword) {
			t.Fatalf("%s %s: answered %d %s, want %d without a secret", method, path, status, text, want)
		}
	}
	admin(http.StatusCreated, "POST", T+"/subscriptions", `{"name":"billing","url":"`+subscriber.url+`","event_types":["payment.*"],
		"auth":{"type":"oauth2","token_url":"`+newTokenEndpoint(t)+`","client_id":"gateway","client_secret":"`+clientSecret+`","scopes":["hooks"]}}`)
	admin(http.StatusCreated, "POST", T+"/sources/github/routes", `{"name":"inside","filter_event_types":["push"],
		"targets":[{"type":"http","url":"`+target.url+`","auth":{"type":"basic","username":"gateway","password":"`+targetPassword+`"}}]}`)
	admin(http.StatusOK, "GET", T+"/subscriptions", "")
	admin(http.StatusOK, "GET", T+"/sources/github/routes", "")

	published := gateway.mustPublish("payment.made", 1)[0]
	subscriber.wantAuthorized(t, "the first token", "Bearer token-1", http.StatusUnauthorized)
	subscriber.wantAuthorized(t, "the renewed token", "Bearer token-2", http.StatusNoContent)
	pushed := gateway.mustPush("1")
	target.wantAuthorized(t, "the http target", "Basic "+base64.StdEncoding.EncodeToString([]byte("gateway:"+targetPassword)), http.StatusNoContent)
	for _, event := range []string{published, pushed} {
		clitest.Eventually(t, "the delivery succeeded with its first attempt", func() bool {
			var got struct {
				Items []struct {
					Status       string
					AttemptCount int `json:"attempt_count"`
				}
			}
			gateway.call(http.MethodGet, "/deliveries?event_id="+event, nil, &got)
			return len(got.Items) == 1 && got.Items[0].Status == "success" && got.Items[0].AttemptCount == 1
		})
	}
	gateway.mustPublish("payment.made", 1)
	subscriber.wantAuthorized(t, "the cached token", "Bearer token-2", http.StatusNoContent)
}
