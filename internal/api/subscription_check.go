package api

import (
	"context"
	"strings"

	"github.com/eventhook/eventhook"
)

// checkSubscription returns the faults of a new or updated subscription. A URL that did
// not change is not checked again.
func (s *server) checkSubscription(want, have eventhook.Subscription) (rules eventhook.Faults) {
	rules.Merge("body", want.Validate())
	if len(want.Filter) > 0 {
		rules.Merge("body.filter", s.Receivers.CheckFilter(want.Filter))
	}
	url := want.URL.Reveal()
	switch {
	case url == have.URL.Reveal():
	case strings.Contains(url, hidden):
		rules.Add("body.url", "contains %s, which replaces the hidden part of a stored URL: give the complete URL", hidden)
	case s.Receivers.RequireHTTPS && !want.IsForAgents() && isPlainHTTP(url):
		rules.Add("body.url", "must be https://: this gateway does not send unencrypted requests")
	}
	return rules
}

// isPlainHTTP reports whether deliveries to a URL are not encrypted.
func isPlainHTTP(url string) bool {
	const scheme = "http://"
	return len(url) >= len(scheme) && strings.EqualFold(url[:len(scheme)], scheme)
}

// checkTransform returns an error if a new transform cannot be compiled.
func (s *server) checkTransform(ctx context.Context, want, have eventhook.Subscription) error {
	if want.Transform == nil || have.Transform != nil && *want.Transform == *have.Transform {
		return nil
	}
	faults, err := s.Routes.CheckRoute(ctx, want.TenantID, eventhook.Route{Transform: want.Transform})
	if err != nil {
		return err
	}
	var rules eventhook.Faults
	rules.Merge("body", faults)
	return rules.Err(notValid)
}

// checkReceiver returns an error if the transform cannot be compiled, or if the gateway may
// not send to the URL or to the token endpoint. It checks URLs that are new, or that agents
// served before. Agents check their own destinations.
func (s *server) checkReceiver(ctx context.Context, want, have eventhook.Subscription) error {
	if err := s.checkTransform(ctx, want, have); err != nil {
		return err
	}
	if err := s.checkTokenURL(ctx, want, have); err != nil {
		return err
	}
	isKnown := want.URL.Equal(have.URL) && !have.IsForAgents()
	if want.IsForAgents() || isKnown {
		return nil
	}
	if err := s.Receivers.CheckAddress(ctx, want.URL.Reveal()); err != nil {
		return invalid("body.url", err.Error())
	}
	return nil
}
