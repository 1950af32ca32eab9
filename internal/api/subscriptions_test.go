package api_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

const (
	subscriptions = "/subscriptions"
	deliveries    = "/deliveries"
	billing       = "https://billing.example/hooks/9f2c?key=k3y"
)

// subscribe creates a subscription of acme and returns its id.
func (r *fixture) subscribe(eventTypes ...string) string {
	r.Helper()
	return r.subscribed(object{"name": "billing", "url": billing, "event_types": eventTypes})
}

func (r *fixture) subscribed(body object) string {
	r.Helper()
	return fmt.Sprint(r.admin("POST", T("acme")+subscriptions, body).want(http.StatusCreated).object()["id"])
}

func subscriptionPath(id string) string { return T("acme") + subscriptions + "/" + id }

func (r *fixture) subscription(id string) object {
	r.Helper()
	return r.admin("GET", subscriptionPath(id), nil).want(http.StatusOK).object()
}

// stored returns a subscription with its secrets.
func (r *fixture) stored(id string) eventhook.Subscription {
	r.Helper()
	parsed, err := eventhook.ParseID[eventhook.Subscription](id)
	r.must(err)
	s, err := r.subscribers.Subscription(r.Context(), r.acme, parsed)
	r.must(err)
	return s
}

// change changes a stored subscription as the gateway does.
func (r *fixture) change(id string, change func(*eventhook.Subscription)) {
	r.Helper()
	_, err := r.UpdateSubscription(r.Context(), operator, r.acme, r.stored(id).ID, 0, func(s eventhook.Subscription) (eventhook.Subscription, error) {
		change(&s)
		return s, nil
	})
	r.must(err)
}

func TestCreateSubscription(t *testing.T) {
	r := setUp(t)
	a := r.admin("POST", T("acme")+subscriptions, object{"name": "billing", "url": billing, "event_types": []string{"payment.*"}}).want(http.StatusCreated)
	made := a.object()
	secret := fmt.Sprint(made["signing_secret"])
	if wrong := eventhook.CheckSigningSecret(secret); wrong != "" || !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("the secret %s", cmp.Or(wrong, "does not begin with whsec_"))
	}
	if s := r.stored(fmt.Sprint(made["id"])); s.Signing[0].Secret.Reveal() != secret || s.URL.Reveal() != billing {
		t.Error("the stored secret and URL are not the returned ones")
	}
	want := object{
		"id": made["id"], "name": "billing", "status": "active", "disabled_reason": nil, "disabled_by": nil, "circuit": object{"state": "closed", "opened_at": nil, "next_probe_at": nil}, "missed_count": 0.0, "url": billing, "event_types": []any{"payment.*"},
		"auth_header": nil, "headers": object{}, "target_labels": []any{}, "timeout_seconds": 30.0, "disable_after_failures": 10.0, "max_in_flight": 10.0, "rate_per_second": 0.0,
		"retry":      object{"max_retries": 5.0, "initial_delay_ms": 1000.0, "backoff_multiplier": 2.0, "max_delay_ms": 60000.0, "jitter": "some"},
		"signatures": []any{"v1"}, "signing_secrets_count": 1.0, "rotation_ends_at": nil, "warnings": []any{}, "signing_secret": secret,
		"scope_filter": []any{}, "format": "eventhook", "header_prefix": "X-Eventhook", "ordered_by": nil, "recovery": object{"enabled": true, "max_age_hours": 72.0},
		"version": 1.0, "created_at": "2026-03-10T15:00:00Z", "updated_at": "2026-03-10T15:00:00Z",
	}
	if diff := gocmp.Diff(want, made); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	delete(want, "signing_secret")
	want["url"] = "https://billing.example/…"
	location := a.Header().Get("Location")
	read := r.admin("GET", location, nil).want(http.StatusOK)
	if diff := gocmp.Diff(want, read.object()); diff != "" || read.Header().Get("ETag") != `"1"` || a.Header().Get("ETag") != `"1"` {
		t.Errorf("read at %s with the ETag %s (-want +got):\n%s", location, read.Header().Get("ETag"), diff)
	}
}

func TestCreateSubscriptionWithAllMembers(t *testing.T) {
	r := setUp(t)
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	body := object{
		"name": "billing", "url": "http://billing.example", "event_types": []string{"payment.*", "ping"}, "filter": object{"body.amount": object{"$gte": 10}},
		"signing_secret": secret, "auth_header": "Bearer " + hush, "headers": object{"X-Env": "prod"}, "target_labels": []string{"env:prod"},
		"retry": object{"schedule_seconds": []int{1, 60}, "jitter": "full"}, "timeout_seconds": 5, "disable_after_failures": 0, "max_in_flight": 3, "rate_per_second": 7,
		"signatures": []string{"v1", "v1a"},
	}
	r.createAgent("berlin", "env:prod")
	a := r.admin("POST", T("acme")+subscriptions, body).want(http.StatusCreated)
	got := a.object()
	for name, want := range map[string]any{
		"url": "http://billing.example", "filter": object{"body.amount": object{"$gte": 10.0}}, "auth_header": "[redacted]", "headers": object{"X-Env": "prod"},
		"target_labels": []any{"env:prod"}, "retry": object{"schedule_seconds": []any{1.0, 60.0}, "jitter": "full"}, "timeout_seconds": 5.0, "disable_after_failures": 0.0,
		"max_in_flight": 3.0, "rate_per_second": 7.0, "signatures": []any{"v1", "v1a"}, "signing_secret": secret,
	} {
		if diff := gocmp.Diff(want, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(got["warnings"].([]any)) != 1 {
		t.Errorf("got the warnings %v, want one about http", got["warnings"])
	}
	pager := object{"name": "pager", "url": "https://events.pagerduty.example/v2/enqueue", "event_types": []string{"check.*"}, "format": "pagerduty"}
	if got := r.admin("POST", T("acme")+subscriptions, pager).want(http.StatusCreated).object()["warnings"]; !strings.Contains(fmt.Sprint(got), "no routing key") {
		t.Errorf("the format pagerduty without an auth_header: got the warnings %v, want one", got)
	}
	pager["name"], pager["auth_header"] = "pager with a key", "R0123456789ABCDEF0123456789ABCDE"
	if got := r.admin("POST", T("acme")+subscriptions, pager).want(http.StatusCreated).object()["warnings"].([]any); len(got) != 0 {
		t.Errorf("the format pagerduty with an auth_header: got the warnings %v, want none", got)
	}
	if strings.Contains(a.Body.String(), hush) {
		t.Errorf("answered %s, want no header value", a.Body)
	}
	if s := r.stored(fmt.Sprint(got["id"])); s.AuthHeader.Reveal() != "Bearer "+hush || s.Ed25519Seed.IsZero() {
		t.Error("it is stored without auth_header or without a key for v1a")
	}
}

func TestURLsAreHidden(t *testing.T) {
	r := setUp(t)
	for given, want := range map[string]string{
		"https://a.example":              "https://a.example",
		"https://a.example/":             "https://a.example/",
		"https://a.example:8443/":        "https://a.example:8443/",
		"https://a.example/x":            "https://a.example/…",
		"https://a.example?k=" + hush:    "https://a.example/…",
		"https://a.example/?k=" + hush:   "https://a.example/…",
		"https://a.example/%2f" + hush:   "https://a.example/…",
		"https://[2001:4860::1]/" + hush: "https://[2001:4860::1]/…",
	} {
		id := r.subscribed(object{"name": "n", "url": given, "event_types": []string{"*"}})
		if got := r.subscription(id)["url"]; got != want {
			t.Errorf("%s is shown as %v, want %s", given, got, want)
		}
		r.admin("PATCH", subscriptionPath(id), object{"name": "m", "url": want}).want(http.StatusOK)
		if got := r.stored(id).URL.Reveal(); got != given {
			t.Errorf("after a PATCH with the shown URL it is %s, want %s", got, given)
		}
	}
	if all := r.admin("GET", T("acme")+subscriptions, nil).want(http.StatusOK).Body.String(); strings.Contains(all, hush) {
		t.Errorf("the list is %s, want no secret", all)
	}
}

func TestSubscriptionFaults(t *testing.T) {
	r := setUp(t, func(d *api.Deps) { d.Receivers.RequireHTTPS = true })
	id := r.subscribe("*")
	for _, c := range []struct {
		claim string
		body  string
		want  []string
	}{
		{"no members", `{}`, []string{"body.name", "body.url", "body.event_types"}},
		{"empty members", `{"name":" ","url":"","event_types":[]}`, []string{"body.name", "body.url", "body.event_types"}},
		{"a * in the middle", `{"event_types":["a.*.b","*a"]}`, []string{"body.event_types[0]", "body.event_types[1]"}},
		{"an invalid URL", `{"url":"billing.example"}`, []string{"body.url"}},
		{"a URL that is not encrypted", `{"url":"http://billing.example"}`, []string{"body.url"}},
		{"an upper-case scheme that is not encrypted", `{"url":"HTTP://billing.example"}`, []string{"body.url"}},
		{"the shown URL of another subscription", `{"url":"https://other.example/…"}`, []string{"body.url"}},
		{"a private address", `{"url":"https://10.0.0.1/"}`, []string{"body.url"}},
		{"retries out of range", `{"retry":{"max_retries":11,"initial_delay_ms":99,"backoff_multiplier":10.5,"max_delay_ms":999}}`,
			[]string{"body.retry.max_retries", "body.retry.initial_delay_ms", "body.retry.backoff_multiplier", "body.retry.max_delay_ms"}},
		{"limits out of range", `{"timeout_seconds":61,"disable_after_failures":-1,"max_in_flight":0,"rate_per_second":-1}`,
			[]string{"body.timeout_seconds", "body.disable_after_failures", "body.max_in_flight", "body.rate_per_second"}},
		{"an unknown operator", `{"filter":{"body.a":{"$gross":1}}}`, []string{"body.filter.body.a.$gross"}},
		{"an unknown signature", `{"signatures":["v2"]}`, []string{"body.signatures[0]"}},
		{"an invalid secret", `{"signing_secret":"whsec_x"}`, []string{"body.signing_secret"}},
		{"a header that the gateway sets", `{"headers":{"webhook-id":"1"}}`, []string{"body.headers.webhook-id"}},
		{"an invalid label", `{"target_labels":["prod"]}`, []string{"body.target_labels[0]"}},
		{"an unknown member", `{"colour":1}`, []string{"body.colour"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			if c.claim != "no members" {
				r.wantFaults(r.admin("PATCH", subscriptionPath(id), c.body), 422, c.want)
			}
			whole := strings.Replace(c.body, "{", `{"name":"n","url":"https://a.example","event_types":["*"],`, 1)
			for _, member := range []string{"name", "url", "event_types"} {
				if strings.Count(whole, `"`+member+`":`) > 1 {
					whole = strings.NewReplacer(map[string]string{"name": `"name":"n",`, "url": `"url":"https://a.example",`, "event_types": `"event_types":["*"],`}[member], "").Replace(whole)
				}
			}
			if c.claim == "no members" {
				whole = c.body
			}
			r.wantFaults(r.admin("POST", T("acme")+subscriptions, whole), 422, c.want)
		})
	}
	r.wantFaults(r.admin("POST", T("acme")+subscriptions, object{"name": "n", "url": "https://a.example", "event_types": []string{"*"}, "auth_header": "[redacted]"}), 422, []string{"body.auth_header"})
	r.wantFaults(r.admin("PATCH", subscriptionPath(id), `{"status":"deleted"}`), 422, []string{"body.status"})
	r.wantFaults(r.admin("PATCH", subscriptionPath(id), `{"url":null,"name":null}`), 422, []string{"body.name", "body.url"})
	if n := len(r.list(T("acme") + subscriptions).Items); n != 1 {
		t.Errorf("there are %d subscriptions, want no new one", n)
	}
}

func TestAgentsMayReachPrivateAddresses(t *testing.T) {
	r := setUp(t, func(d *api.Deps) { d.Receivers.RequireHTTPS = true })
	id := r.subscribed(object{"name": "inside", "url": "http://10.0.0.1/in", "event_types": []string{"*"}, "target_labels": []string{"env:prod"}})
	r.wantFaults(r.admin("PATCH", subscriptionPath(id), object{"target_labels": []string{}}), 422, []string{"body.url"})
	r.admin("PATCH", subscriptionPath(id), object{"name": "still"}).want(http.StatusOK)
	r.admin("POST", subscriptionPath(id)+"/test", nil).want(http.StatusConflict)
	r.wantFaults(r.admin("POST", T("acme")+subscriptions, object{"name": "n", "url": "https://a.example", "event_types": []string{"*"},
		"target_labels": []string{"env:prod"}, "validate": true}), 422, []string{"body.validate"})
}

func TestTenantsCannotSubscribeToAdminTypes(t *testing.T) {
	r := setUp(t)
	body := object{"name": "n", "url": billing, "event_types": []string{"tenant.*", "tenant.created", "tenant.updated"}}
	r.wantFaults(r.admin("POST", T("acme")+subscriptions, body), 422, []string{"body.event_types[1]"})
	id := r.subscribed(object{"name": "n", "url": billing, "event_types": []string{"tenant.*"}})
	r.wantFaults(r.admin("PATCH", subscriptionPath(id), object{"event_types": []string{"tenant.updated", "tenant.closed"}}), 422, []string{"body.event_types[1]"})
}

func TestValidateSendsATestEvent(t *testing.T) {
	r := setUp(t)
	body := object{"name": "n", "url": billing, "event_types": []string{"*"}, "validate": true, "auth_header": "Bearer x"}
	r.answers = eventhook.Attempt{StatusCode: 500, ErrorClass: eventhook.ErrorHTTP5xx, Error: "billing.example answered 500", Excerpt: "oops"}
	p := r.admin("POST", T("acme")+subscriptions, body).want(http.StatusUnprocessableEntity).problem()
	if len(p.Errors) != 1 || p.Errors[0].Location != "body.url" || !strings.Contains(p.Errors[0].Message, "answered 500") {
		t.Errorf("got the faults %v, want the result of the test event at body.url", p.Errors)
	}
	if len(r.list(T("acme")+subscriptions).Items) > 0 {
		t.Error("the subscription was created")
	}
	r.answers = eventhook.Attempt{StatusCode: 204}
	r.admin("POST", T("acme")+subscriptions, body).want(http.StatusCreated)
	if last := r.tested[len(r.tested)-1]; last.URL.Reveal() != billing || last.AuthHeader.Reveal() != "Bearer x" || len(last.Signing) != 1 || last.TenantID != r.acme {
		t.Errorf("tested %+v, want the subscription as it would be stored", last)
	}
	if len(r.tested) != 2 {
		t.Errorf("tested %d times, want 2", len(r.tested))
	}
}

func TestUpdateSubscription(t *testing.T) {
	r := setUp(t)
	id := r.subscribed(object{"name": "billing", "url": billing, "event_types": []string{"a"}, "auth_header": "Bearer " + hush, "headers": object{"X-A": "1"}})
	version := 1.0
	for _, c := range []struct {
		claim, patch string
		want         object
	}{
		{"no change", `{}`, nil},
		{"the current values as shown", `{"name":"billing","url":"https://billing.example/…","auth_header":"[redacted]","status":"active"}`, nil},
		{"a name", `{"name":"New"}`, object{"name": "New", "auth_header": "[redacted]"}},
		{"event types are replaced as a whole", `{"event_types":["b","c.*"]}`, object{"event_types": []any{"b", "c.*"}}},
		{"an added header", `{"headers":{"X-B":"2"}}`, object{"headers": object{"X-A": "1", "X-B": "2"}}},
		{"a removed header", `{"headers":{"X-A":null}}`, object{"headers": object{"X-B": "2"}}},
		{"a part of the retries", `{"retry":{"max_retries":0}}`, object{"retry": object{"max_retries": 0.0, "initial_delay_ms": 1000.0, "backoff_multiplier": 2.0, "max_delay_ms": 60000.0, "jitter": "some"}}},
		{"the retries, reset", `{"retry":null}`, object{"retry": object{"max_retries": 5.0, "initial_delay_ms": 1000.0, "backoff_multiplier": 2.0, "max_delay_ms": 60000.0, "jitter": "some"}}},
		{"a filter", `{"filter":{"body.a":1,"body.b":null}}`, object{"filter": object{"body.a": 1.0, "body.b": nil}}},
		{"a filter is replaced as a whole", `{"filter":{"body.c":2}}`, object{"filter": object{"body.c": 2.0}}},
		{"no filter", `{"filter":null}`, object{"filter": nil}},
		{"a limit", `{"timeout_seconds":7}`, object{"timeout_seconds": 7.0}},
		{"a limit, reset", `{"timeout_seconds":null}`, object{"timeout_seconds": 30.0}},
		{"never disabled", `{"disable_after_failures":0}`, object{"disable_after_failures": 0.0}},
		{"paused", `{"status":"paused"}`, object{"status": "paused"}},
		{"resumed", `{"status":"active"}`, object{"status": "active"}},
		{"no Authorization", `{"auth_header":null}`, object{"auth_header": nil}},
		{"another signature", `{"signatures":["v1a"]}`, object{"signatures": []any{"v1a"}}},
		{"a secret", `{"signing_secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`, object{"signing_secrets_count": 1.0}},
		{"another URL", `{"url":"https://other.example/x","headers":{"X-B":"2"}}`, object{"url": "https://other.example/…"}},
	} {
		r.clock.Advance(time.Second)
		a := r.admin("PATCH", subscriptionPath(id), c.patch)
		got := a.want(http.StatusOK).object()
		if c.want != nil {
			version++
		}
		if got["version"] != version || a.Header().Get("ETag") != fmt.Sprintf(`"%v"`, version) {
			t.Errorf("%s: version %v with the ETag %s, want %v", c.claim, got["version"], a.Header().Get("ETag"), version)
		}
		for name, want := range c.want {
			if diff := gocmp.Diff(want, got[name]); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", c.claim, name, diff)
			}
		}
		if strings.Contains(a.Body.String(), hush) || strings.Contains(a.Body.String(), "whsec_") {
			t.Errorf("%s: answered %s, want no secret", c.claim, a.Body)
		}
	}
	if s := r.stored(id); s.Ed25519Seed.IsZero() || s.URL.Reveal() != "https://other.example/x" || s.Signing[0].Secret.Reveal() != "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" {
		t.Error("the stored subscription does not have the new URL, the new secret and a key for v1a")
	}
}

func TestSubscriptionVersions(t *testing.T) {
	r := setUp(t)
	id := r.subscribe("*")
	path := subscriptionPath(id)
	r.matching(`"1"`, "PATCH", path, `{"name":"b"}`).want(http.StatusOK)
	for _, stale := range []string{`"1"`, `W/"2"`, `"x"`} {
		r.matching(stale, "PATCH", path, `{"name":"never"}`).want(http.StatusPreconditionFailed)
		r.matching(stale, "DELETE", path, "").want(http.StatusPreconditionFailed)
	}
	r.matching(`"1", "2"`, "PATCH", path, `{"name":"c"}`).want(http.StatusOK)
	r.matching(`"3"`, "DELETE", path, "").want(http.StatusNoContent)
	r.admin("GET", path, nil).want(http.StatusNotFound)
	r.admin("DELETE", path, nil).want(http.StatusNotFound)
	r.admin("PATCH", path, object{"name": "d"}).want(http.StatusNotFound)
}

// overtaken changes a subscription each time that it is read.
type overtaken struct {
	*subscribers
	times int
}

func (o *overtaken) Subscription(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (eventhook.Subscription, error) {
	s, err := o.subscribers.Subscription(ctx, tenant, id)
	if o.times > 0 {
		o.times--
		_, _ = o.UpdateSubscription(ctx, operator, tenant, id, 0, func(x eventhook.Subscription) (eventhook.Subscription, error) {
			x.MaxInFlight++
			return x, nil
		})
	}
	return s, err
}

func TestOvertakenUpdateIsRetried(t *testing.T) {
	store := &overtaken{}
	r := setUp(t, func(d *api.Deps) {
		store.subscribers, _ = d.Subscriptions.(*subscribers)
		d.Subscriptions = store
	})
	id := r.subscribe("*")
	store.times = 2
	got := r.admin("PATCH", subscriptionPath(id), object{"name": "b"}).want(http.StatusOK).object()
	if got["max_in_flight"] != 2.0 || got["name"] != "b" {
		t.Errorf("got %v, want both updates", got)
	}
	store.times = 1000
	r.admin("PATCH", subscriptionPath(id), object{"name": "c"}).want(http.StatusConflict)
}

func TestSubscriptionStatuses(t *testing.T) {
	const active, paused, disabled = "active", "paused", "disabled"
	for _, c := range []struct {
		from, act, patch string
		status           int
		to               string
	}{
		{active, "pause", "", 200, paused}, {paused, "pause", "", 200, paused}, {disabled, "pause", "", 409, disabled},
		{active, "resume", "", 200, active}, {paused, "resume", "", 200, active}, {disabled, "resume", "", 409, disabled},
		{active, "enable", "", 200, active}, {paused, "enable", "", 200, active}, {disabled, "enable", "", 200, active},
		{disabled, "", active, 200, active}, {disabled, "", disabled, 200, disabled}, {disabled, "", paused, 409, disabled},
		{active, "", disabled, 200, disabled}, {paused, "", disabled, 200, disabled},
		{active, "disable", "", 200, disabled}, {paused, "disable", "", 200, disabled}, {disabled, "disable", "", 200, disabled},
	} {
		t.Run(c.from+" "+c.act+c.patch, func(t *testing.T) {
			r := setUp(t)
			id := r.subscribe("*")
			r.change(id, func(s *eventhook.Subscription) {
				s.Status = eventhook.SubscriptionStatus(c.from)
				if c.from == disabled {
					s.DisabledReason = "10 deliveries dead in a row"
				}
			})
			if c.act != "" {
				r.admin("POST", subscriptionPath(id)+"/"+c.act, nil).want(c.status)
			} else {
				r.admin("PATCH", subscriptionPath(id), object{"status": c.patch}).want(c.status)
			}
			got := r.subscription(id)
			if got["status"] != c.to || (got["disabled_reason"] != nil) != (c.to == disabled) {
				t.Errorf("it is %v for %v, want %s", got["status"], got["disabled_reason"], c.to)
			}
		})
	}
}

func TestRotateSecret(t *testing.T) {
	r := setUp(t)
	id := r.subscribe("*")
	path := subscriptionPath(id)
	rotate := func(body any) object {
		t.Helper()
		r.clock.Advance(time.Minute)
		a := r.admin("POST", path+"/rotate-secret", body).want(http.StatusOK)
		if a.Header().Get("ETag") == "" {
			t.Error("the response has no ETag")
		}
		return a.object()
	}
	signing := func() (all []string) {
		for _, s := range r.stored(id).Signing {
			all = append(all, s.Secret.Reveal())
		}
		return all
	}
	first := signing()
	got := rotate(nil)
	if want := r.clock.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339); got["previous_expires_at"] != want || got["signing_secrets_count"] != 2.0 {
		t.Errorf("by default: got %v, want two secrets until %s", got, want)
	}
	if view := r.subscription(id); view["rotation_ends_at"] != got["previous_expires_at"] || view["signing_secrets_count"] != 2.0 || view["signing_secret"] != nil {
		t.Errorf("the subscription is %v, want rotation_ends_at and no secret", view)
	}
	second := got["signing_secret"]
	if diff := gocmp.Diff([]string{fmt.Sprint(second), first[0]}, signing()); diff != "" {
		t.Errorf("signing (-want +got):\n%s", diff)
	}
	third := rotate(object{"grace_seconds": 60})["signing_secret"]
	fourth := rotate(object{"signing_secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})["signing_secret"]
	if now := signing(); !slices.Equal(now, []string{fmt.Sprint(fourth), fmt.Sprint(third)}) {
		t.Errorf("signing with %d secrets, want the newest and the previous one", len(now))
	}
	if got := rotate(object{"signing_secret": "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}); len(got["warnings"].([]any)) != 1 || len(r.subscription(id)["warnings"].([]any)) != 1 {
		t.Errorf("a secret that reads like base64: got %v, want a warning", got)
	}
	r.wantFaults(r.admin("POST", path+"/rotate-secret", object{"signing_secret": fourth}), 422, []string{"body.signing_secret"})
	r.wantFaults(r.admin("POST", path+"/rotate-secret", object{"signing_secret": "whsec_!", "grace_seconds": 604801}), 422, []string{"body.signing_secret", "body.grace_seconds"})
	r.clock.Advance(8 * 24 * time.Hour)
	if view := r.subscription(id); view["signing_secrets_count"] != 1.0 || view["rotation_ends_at"] != nil {
		t.Errorf("after a week: got %v, want one secret", view)
	}
	rotate(object{"grace_seconds": 604800})
	if got := rotate(object{"grace_seconds": 0}); got["previous_expires_at"] != nil || got["signing_secrets_count"] != 1.0 || len(signing()) != 1 {
		t.Errorf("without grace: got %v, want only the new secret", got)
	}
}

func TestTestSubscription(t *testing.T) {
	r := setUp(t)
	id := r.subscribe("never")
	r.answers = eventhook.Attempt{StartedAt: noon, Duration: 1500 * time.Microsecond, StatusCode: 200, Excerpt: "ok"}
	got := r.admin("POST", subscriptionPath(id)+"/test", nil).want(http.StatusOK).object()
	want := object{"delivered": true, "event_id": got["event_id"], "delivery_id": got["delivery_id"], "started_at": "2026-03-10T15:00:00Z", "duration_ms": 1.0,
		"status_code": 200.0, "error": nil, "error_class": nil, "response_excerpt": "ok"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
	r.answers = eventhook.Attempt{StartedAt: noon, ErrorClass: eventhook.ErrorConnect, Error: "billing.example: connection refused"}
	got = r.admin("POST", subscriptionPath(id)+"/test", nil).want(http.StatusOK).object()
	if got["delivered"] != false || got["error_class"] != "connect" || got["status_code"] != nil || got["error"] != "billing.example: connection refused" {
		t.Errorf("a failed test: got %v, want the reason", got)
	}
	read := r.admin("GET", T("acme")+deliveries+"/"+fmt.Sprint(got["delivery_id"]), nil).want(http.StatusOK).object()
	if read["status"] != "dead" || len(read["attempts"].([]any)) != 1 {
		t.Errorf("the delivery is %v, want it dead after one attempt", read)
	}
}

func TestPublicKey(t *testing.T) {
	r := setUp(t)
	id := r.subscribe("*")
	if p := r.admin("GET", subscriptionPath(id)+"/public-key", nil).want(http.StatusNotFound).problem(); !strings.Contains(p.Detail, "v1a") {
		t.Errorf("the detail is %q, want what to do", p.Detail)
	}
	r.admin("PATCH", subscriptionPath(id), object{"signatures": []string{"v1", "v1a"}}).want(http.StatusOK)
	got := r.admin("GET", subscriptionPath(id)+"/public-key", nil).want(http.StatusOK).object()
	if want := (object{"public_key": eventhook.Ed25519PublicKey(r.stored(id).Ed25519Seed), "algorithm": "ed25519"}); gocmp.Diff(want, got) != "" {
		t.Errorf("got %v, want %v", got, want)
	}
	before := got["public_key"]
	r.admin("PATCH", subscriptionPath(id), object{"signatures": []string{"v1"}}).want(http.StatusOK)
	r.admin("GET", subscriptionPath(id)+"/public-key", nil).want(http.StatusNotFound)
	r.admin("PATCH", subscriptionPath(id), object{"signatures": []string{"v1a"}}).want(http.StatusOK)
	if again := r.admin("GET", subscriptionPath(id)+"/public-key", nil).want(http.StatusOK).object()["public_key"]; again != before {
		t.Error("the key has changed, and receivers have the old key")
	}
}

func TestSubscriptionWithLostSecretsCanBeReadAndRepaired(t *testing.T) {
	r := setUp(t)
	id := r.subscribed(object{"name": "n", "url": billing, "event_types": []string{"*"}, "auth_header": lostKeyMarker})
	got := r.subscription(id)
	if got["secrets_lost"] != true || got["url"] != "" || got["signing_secrets_count"] != 0.0 {
		t.Errorf("got %v, want that it is lost", got)
	}
	r.admin("POST", subscriptionPath(id)+"/pause", nil).want(http.StatusOK)
	r.admin("POST", subscriptionPath(id)+"/test", nil).want(http.StatusConflict)
	r.admin("POST", subscriptionPath(id)+"/rotate-secret", nil).want(http.StatusConflict)
	r.admin("PATCH", subscriptionPath(id), object{"name": "known"}).want(http.StatusOK)
	for _, half := range []object{{"url": billing}, {"signing_secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, {"auth_header": "Bearer x"}} {
		r.admin("PATCH", subscriptionPath(id), half).want(http.StatusUnprocessableEntity)
	}
	mended := r.admin("PATCH", subscriptionPath(id), object{"url": billing, "signing_secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}).want(http.StatusOK).object()
	if mended["secrets_lost"] != nil || mended["url"] != "https://billing.example/…" || mended["name"] != "known" {
		t.Errorf("got %v, want it mended", mended)
	}
}

func TestSubscriptionStats(t *testing.T) {
	r := setUp(t)
	id := r.subscribe("*")
	r.stats = eventhook.SubscriptionStats{DeliveredLastHour: 1, DeliveredLast24h: 2, FailedLastHour: 3, FailedLast24h: 4, DeadLastHour: 5, DeadLast24h: 6,
		MeanDuration: 1500 * time.Microsecond, Waiting: 7, OldestAt: new(noon), DeadInRow: 8}
	got := r.admin("GET", subscriptionPath(id)+"/stats", nil).want(http.StatusOK).object()
	want := object{"delivered_last_hour": 1.0, "delivered_last_24h": 2.0, "failed_last_hour": 3.0, "failed_last_24h": 4.0, "dead_last_hour": 5.0, "dead_last_24h": 6.0,
		"mean_duration_ms": 1.5, "waiting": 7.0, "oldest_waiting_at": "2026-03-10T15:00:00Z", "dead_in_row": 8.0}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
