package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/snapshot"
	"github.com/eventhook/eventhook/outbound/send"
)

// The bounds of tokens.
const (
	maxTokens     = 4096
	maxTokenBytes = 64 << 10 // of the answer of a token endpoint
	// maxTokenAge is the age after which a token is renewed that says no end, or a later one.
	maxTokenAge = time.Hour
	// A token is renewed before its end: a fifth of its lifetime, at most maxMargin.
	maxMargin   = time.Minute
	marginShare = 5
	// minTokenAge is the age at which a token is renewed that the receiver has rejected according to
	// another instance: deliveries that are composed together share the new one.
	minTokenAge = 5 * time.Second
)

// tokenKey are the credentials for which a token is issued.
type tokenKey struct{ url, id, secret, scopes string }

func keyOf(a eventhook.Auth) tokenKey {
	return tokenKey{a.TokenURL, a.ClientID, a.ClientSecret, strings.Join(a.Scopes, " ")}
}

// token is the value of the Authorization header until a time.
type token struct {
	authorization string
	since, until  time.Time
}

// tokens caches the tokens of client credentials.
type tokens struct {
	deps  Deps
	cache *snapshot.Cache[tokenKey, token]
	// configs remember how each token endpoint takes the client's credentials: in the header
	// or in the body.
	configs *lru.Cache[tokenKey, *clientcredentials.Config]
}

func newTokens(d Deps) *tokens {
	t := &tokens{deps: d}
	t.cache = snapshot.New(maxTokens, maxTokenAge, d.Now, t.request)
	t.configs, _ = lru.New[tokenKey, *clientcredentials.Config](maxTokens) // the error is for sizes below 1
	return t
}

// bearer sends requests with a token.
type bearer struct {
	client send.Client
	tokens *tokens
	key    tokenKey
}

// Exchange implements send.Client. After a 401 it renews the token and repeats the request
// once.
func (b bearer) Exchange(ctx context.Context, request *http.Request, maxBytes int) (int, http.Header, []byte, error) {
	for isLast := false; ; isLast = true {
		current, err := b.tokens.get(ctx, b.key)
		if err != nil {
			return 0, nil, nil, err
		}
		sent, err := withAuthorization(request, current.authorization)
		if err != nil {
			return 0, nil, nil, err
		}
		status, header, beginning, err := exchange(ctx, b.client, sent, maxBytes)
		if err != nil || status != http.StatusUnauthorized || isLast {
			return status, header, beginning, err
		}
		b.tokens.drop(b.key, current)
	}
}

// Prepare implements send.Preparer.
func (b bearer) Prepare(ctx context.Context, request *http.Request) (*http.Request, error) {
	current, err := b.tokens.get(ctx, b.key)
	if err != nil {
		return nil, err
	}
	return withAuthorization(request, current.authorization)
}

// Renew implements send.Preparer.
func (b bearer) Renew() {
	if current, err := b.tokens.cache.Peek(b.key); err == nil && b.tokens.deps.Now().Sub(current.since) >= minTokenAge {
		b.tokens.drop(b.key, current)
	}
}

// Answered implements send.Preparer. A 401 removes the token from the cache, so that the next
// request has a new one.
func (b bearer) Answered(status int, beginning []byte) (isRenewed bool) {
	isRenewed = status == http.StatusUnauthorized
	current, err := b.tokens.cache.Peek(b.key)
	if err != nil {
		return isRenewed
	}
	mask(beginning, credentialsOf(current.authorization))
	if isRenewed {
		b.tokens.drop(b.key, current)
	}
	return isRenewed
}

// get returns a token from the cache, or requests one.
func (t *tokens) get(ctx context.Context, key tokenKey) (current token, err error) {
	const tries = 2
	for range tries {
		current, err = t.cache.Get(ctx, key)
		if err != nil || t.deps.Now().Before(current.until) {
			break
		}
		t.drop(key, current)
	}
	if err != nil && ctx.Err() != nil {
		err = lateToken(hostOf(key.url), err)
	}
	return current, err
}

// drop removes a token from the cache, unless it was already replaced.
func (t *tokens) drop(key tokenKey, old token) {
	if cached, err := t.cache.Peek(key); err == nil && cached == old {
		t.cache.Invalidate(key)
	}
}

// request requests a token from its endpoint.
func (t *tokens) request(ctx context.Context, key tokenKey) (token, error) {
	config, ok := t.configs.Get(key)
	if !ok {
		config = &clientcredentials.Config{ClientID: key.id, ClientSecret: key.secret, TokenURL: key.url,
			Scopes: strings.Fields(key.scopes)}
		t.configs.Add(key, config)
	}
	began := t.deps.Now()
	issued, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient,
		&http.Client{Transport: tokenTransport{t.deps.Client}, CheckRedirect: noRedirect}))
	if err != nil {
		return token{}, tokenErrorOf(key.url, err)
	}
	authorization := issued.Type() + " " + issued.AccessToken
	if !eventhook.IsHeaderValue(authorization) {
		return token{}, &tokenError{hostOf(key.url) + " answered with a token that cannot be sent in a header", eventhook.ErrorHTTP, nil}
	}
	return token{authorization, began, began.Add(lifetime(issued))}, nil
}

// lifetime returns how long a token is used. Package oauth2 reads expires_in by the clock of
// the system, and accepts numbers and texts.
func lifetime(issued *oauth2.Token) time.Duration {
	const limit = 2 * maxTokenAge
	seconds, err := strconv.ParseFloat(fmt.Sprint(issued.Extra("expires_in")), 64)
	if err != nil || !(seconds > 0) {
		return maxTokenAge
	}
	whole := time.Duration(min(seconds, limit.Seconds()) * float64(time.Second))
	return whole - min(whole/marginShare, maxMargin)
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// tokenTransport is an http.RoundTripper over a send.Client, which bounds the answer.
type tokenTransport struct{ client send.Client }

func (t tokenTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	status, header, beginning, err := t.client.Exchange(request.Context(), request, maxTokenBytes)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: header, Request: request,
		Body: io.NopCloser(bytes.NewReader(beginning)), ContentLength: int64(len(beginning))}, nil
}

// tokenError is why there is no token. Its text is for users.
type tokenError struct {
	text  string
	class eventhook.ErrorClass
	cause error
}

func (e *tokenError) Error() string { return eventhook.NoToken + ": " + e.text }
func (e *tokenError) Unwrap() error { return e.cause }

// Class returns the eventhook.ErrorClass of the failure.
func (e *tokenError) Class() string { return string(e.class) }

func lateToken(host string, cause error) error {
	return &tokenError{host + " did not answer in time", eventhook.ErrorTimeout, cause}
}

// errorCodes are the codes of RFC 6749, section 5.2, and RFC 8707. Other codes are not shown,
// because an endpoint could repeat a secret.
var errorCodes = []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
	"invalid_scope", "invalid_target"}

// tokenErrorOf translates an error of package oauth2, whose text contains the answer.
func tokenErrorOf(endpoint string, err error) error {
	host := hostOf(endpoint)
	var failed interface {
		error
		Class() string
	}
	if errors.As(err, &failed) {
		return &tokenError{failed.Error(), eventhook.ErrorClass(failed.Class()), err}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return lateToken(host, err)
	}
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || refused.Response == nil || refused.Response.StatusCode < http.StatusMultipleChoices {
		return &tokenError{"the answer of " + host + " has none", eventhook.ErrorHTTP, err}
	}
	class, text := send.Classify(host, refused.Response.StatusCode)
	if slices.Contains(errorCodes, refused.ErrorCode) {
		text += " (" + refused.ErrorCode + ")"
	}
	return &tokenError{text, class, err}
}

// hostOf returns the host of a valid URL.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}
