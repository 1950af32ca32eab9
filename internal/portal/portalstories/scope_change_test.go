package portalstories_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// customers are the scopes of the events of a shared endpoint.
var customers = []string{"initech", globex, "globex-2", globex + "/eu"}

// sharedEndpoint is an endpoint with one delivery of each customer, which the tenant then gives to globex.
type sharedEndpoint struct {
	*account
	visitor    *visitor
	id         string
	deliveries map[string]string // by the scope of the event; "" has none
}

// newSharedEndpoint creates an endpoint of a scope that gets an event of each customer, and one without a
// scope if it gets that. Each delivery fails.
func newSharedEndpoint(t *testing.T, g *gatewaytest.Gateway, slug string, scope ...string) *sharedEndpoint {
	t.Helper()
	s := &sharedEndpoint{account: &account{Tenant: g.Tenant(t, slug), t: t, at: gatewaytest.NewReceiver(t)},
		deliveries: map[string]string{}}
	s.at.Answer(http.StatusNotFound) // which begins no outage
	defineTypes(t, s.Tenant)
	s.id = s.subscribe("Shared", scope...)
	if len(scope) == 0 {
		s.deliveries[""] = s.publishes("", client.DeliveryStatusDead)
	}
	for _, of := range customers {
		s.deliveries[of] = s.publishes(of, client.DeliveryStatusDead)
	}
	return s
}

// publishes publishes an event of a scope, and returns its delivery as soon as that has a status.
func (s *sharedEndpoint) publishes(scope string, status client.DeliveryStatus) (delivery string) {
	s.t.Helper()
	event := client.EventPublish{EventType: "invoice.paid", Data: json.RawMessage(`{"note":"of ` + scope + `."}`)}
	if scope != "" {
		event.Scope = new(json.RawMessage(`"` + scope + `"`))
	}
	published := gatewaytest.Must(s.Client.PublishEvent(s.t.Context(), s.Slug, client.PublishEventParams{}, event))
	return s.waits(published.EventID, status)
}

// waits waits until the delivery of an event has a status.
func (s *sharedEndpoint) waits(event string, status client.DeliveryStatus) (delivery string) {
	s.t.Helper()
	for {
		found := gatewaytest.Must(s.Client.ListSubscriptionDeliveries(s.t.Context(), s.Slug, s.id,
			client.ListSubscriptionDeliveriesParams{EventID: &event, Status: &status}))
		if len(found.Items) > 0 {
			return found.Items[0].ID
		}
	}
}

// isGivenTo changes the scope of the endpoint, and opens the portal as its customer.
func (s *sharedEndpoint) isGivenTo(g *gatewaytest.Gateway, scope string) {
	s.t.Helper()
	gatewaytest.Must(s.Client.UpdateSubscription(s.t.Context(), s.Slug, s.id, client.UpdateSubscriptionParams{},
		client.SubscriptionPatch{ScopeFilter: []string{scope, scope + "/*"}}))
	s.visitor = newVisitor(s.t, g, s.PortalLink(scope, false))
}

// edits has the customer change the URL of the endpoint.
func (s *sharedEndpoint) edits(to string) {
	s.t.Helper()
	now := gatewaytest.Must(s.Client.GetSubscription(s.t.Context(), s.Slug, s.id))
	changed := url.Values{"csrf": {s.visitor.csrf}, "name": {now.Name}, "url": {to}, "event_types": now.EventTypes,
		"version": {strconv.FormatInt(now.Version, 10)}}
	if got := s.visitor.do(http.MethodPost, "/portal/endpoints/"+s.id+"/edit",
		changed); got.status != http.StatusSeeOther {
		s.t.Fatalf("the change of the URL is answered %s", got)
	}
}

// isOfGlobex reports whether globex may see an event of a scope.
func isOfGlobex(scope string) bool { return scope == globex || strings.HasPrefix(scope, globex+"/") }

func TestCustomerSeesNoDeliveryOfBeforeAChangeOfScope(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	for slug, scope := range map[string][]string{"handover": {"*"}, "handover-all": nil,
		"handover-list": append([]string{globex + "/*"}, customers...)} {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			s := newSharedEndpoint(t, g, slug, scope...)
			s.isGivenTo(g, globex)
			s.seesItsOwnDeliveriesOnly()
			s.replaysItsOwnDeliveriesOnly()
			s.sendsItsOwnDeliveriesOnly()
		})
	}
}

func (s *sharedEndpoint) seesItsOwnDeliveriesOnly() {
	page := "/portal/endpoints/" + s.id
	for _, path := range []string{page, page + "?status=dead"} {
		got := s.visitor.do(http.MethodGet, path, nil)
		for scope, id := range s.deliveries {
			if strings.Contains(got.body, id) != isOfGlobex(scope) {
				s.t.Errorf("GET %s lists the delivery of %q: %t", path, scope, !isOfGlobex(scope))
			}
		}
		if path == page && !strings.Contains(got.body, "2 deliveries, the newest at the right") {
			s.t.Errorf("GET %s has another strip than one of 2 deliveries", path)
		}
	}
	for scope, id := range s.deliveries {
		got := s.visitor.do(http.MethodGet, "/portal/deliveries/"+id, nil)
		if want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[isOfGlobex(scope)]; got.status != want {
			s.t.Errorf("the page of the delivery of %q is answered %d, want %d", scope, got.status, want)
		}
		if strings.Contains(got.body, "of "+scope+".") != isOfGlobex(scope) {
			s.t.Errorf("the page of the delivery of %q shows the event: %t", scope, !isOfGlobex(scope))
		}
	}
	// The figures begin with the change of the scope.
	if got := s.figure("Failed in 24 h"); got != "0" {
		s.t.Errorf("the page counts %s failed deliveries, want 0", got)
	}
}

// figure returns the text of a figure on the page of the endpoint.
func (s *sharedEndpoint) figure(name string) string {
	s.t.Helper()
	_, after, _ := strings.Cut(s.visitor.do(http.MethodGet, "/portal/endpoints/"+s.id, nil).body, name+"</span>")
	return between(after, ">", "<")
}

// between returns the text between two others.
func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}

func (s *sharedEndpoint) replaysItsOwnDeliveriesOnly() {
	path := "/portal/endpoints/" + s.id + "/replay"
	got := s.visitor.do(http.MethodGet, path+"?what=all&since="+hourAgo(), nil)
	if estimate := between(got.body, "<p>Replay ", " to Shared"); estimate != "<strong>2 deliveries</strong>" {
		s.t.Errorf("the estimate is %s, want 2 deliveries", estimate)
	}
	missing := url.Values{"csrf": {s.visitor.csrf}, "since": {hourAgo()}, "what": {"missing"}}
	s.visitor.do(http.MethodPost, path, missing)
	found := gatewaytest.Must(s.Client.ListReplays(s.t.Context(), s.Slug, s.id, client.ListReplaysParams{})).Items
	if len(found) != 1 || found[0].Estimated != 2 {
		s.t.Fatalf("got the replays %+v, want one of 2 estimated deliveries", found)
	}
	for found[0].Status == client.ReplayStatusRunning {
		found[0] = gatewaytest.Must(s.Client.GetReplay(s.t.Context(), s.Slug, s.id, found[0].ID))
	}
	if found[0].Queued != 2 {
		s.t.Errorf("the replay has sent %d deliveries, want 2", found[0].Queued)
	}
}

func (s *sharedEndpoint) sendsItsOwnDeliveriesOnly() {
	to := gatewaytest.NewReceiver(s.t)
	s.edits(to.URL)
	for scope, id := range s.deliveries {
		got := s.visitor.do(http.MethodPost, "/portal/deliveries/"+id+"/retry", url.Values{"csrf": {s.visitor.csrf}})
		if want := map[bool]int{true: http.StatusSeeOther,
			false: http.StatusNotFound}[isOfGlobex(scope)]; got.status != want {
			s.t.Errorf("the retry of the delivery of %q is answered %d, want %d", scope, got.status, want)
		}
	}
	for scope, id := range s.deliveries {
		if isOfGlobex(scope) {
			s.ends(id)
		}
	}
	s.publishes(globex, client.DeliveryStatusSuccess) // after all that was sent before
	s.gotItsOwnOnly(to)
}

// ends waits until a delivery has ended, and returns it.
func (s *sharedEndpoint) ends(delivery string) client.DeliveryDetail {
	s.t.Helper()
	for {
		d := gatewaytest.Must(s.Client.GetDelivery(s.t.Context(), s.Slug, delivery))
		if d.Status == client.DeliveryStatusSuccess || d.Status == client.DeliveryStatusDead {
			return d
		}
	}
}

// gotItsOwnOnly fails the test if the customer's receiver got nothing, or an event of another customer.
func (s *sharedEndpoint) gotItsOwnOnly(at *gatewaytest.Receiver) {
	s.t.Helper()
	if at.Unread() == 0 {
		s.t.Error("the customer's receiver got nothing")
	}
	for at.Unread() > 0 {
		d := at.Next()
		if !strings.Contains(string(d.Body), "of "+globex+".") && !strings.Contains(string(d.Body), "of "+globex+"/eu.") {
			s.t.Errorf("the customer's receiver got %s", d.Body)
		}
	}
}

// Deliveries that wait when the scope changes are never sent to the customer's URL.
func TestHeldDeliveriesOfOtherCustomersAreNotSent(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	s := newSharedEndpoint(t, g, "held", "*")
	ctx := t.Context()
	gatewaytest.Must(s.Client.PauseSubscription(ctx, s.Slug, s.id))
	held := map[string]string{}
	for _, of := range customers {
		held[of] = s.publishes(of, client.DeliveryStatusPending)
	}
	s.isGivenTo(g, globex)
	if got := s.figure("Waiting"); got != "2" {
		t.Errorf("the page counts %s waiting deliveries, want 2", got)
	}
	to := gatewaytest.NewReceiver(t)
	s.edits(to.URL)
	s.visitor.do(http.MethodPost, "/portal/endpoints/"+s.id+"/resume", url.Values{"csrf": {s.visitor.csrf}})
	for _, of := range customers {
		d := s.ends(held[of])
		switch {
		case isOfGlobex(of) && d.Status != client.DeliveryStatusSuccess:
			t.Errorf("the delivery of %s is %s, want success", of, d.Status)
		case !isOfGlobex(of) && (d.Status != client.DeliveryStatusDead || d.AttemptCount != 0):
			t.Errorf("the delivery of %s is %s after %d attempts, want dead without one", of, d.Status, d.AttemptCount)
		}
	}
	s.gotItsOwnOnly(to)
}
