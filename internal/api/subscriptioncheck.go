package api

import (
	"context"
	"strings"

	"github.com/eventhook/eventhook"
)

// checkSubscription says what is wrong with what a subscription would be, and
// was not before.
func (s *server) checkSubscription(want, have eventhook.Subscription) (rules eventhook.Faults) {
	rules.Merge("body", want.Validate())
	if len(want.Filter) > 0 {
		rules.Merge("body.filter", s.Receivers.CheckFilter(want.Filter))
	}
	url := want.URL.Reveal()
	switch {
	case url == have.URL.Reveal():
	case strings.Contains(url, hidden):
		rules.Add("body.url", "has %s in it, which stands for what is not shown of a URL that is stored: write the whole URL", hidden)
	case s.Receivers.RequireHTTPS && !want.IsForAgents() && isPlainHTTP(url):
		rules.Add("body.url", "must be https://: this gateway sends nothing that is not encrypted")
	}
	return rules
}

// isPlainHTTP reports whether what is sent to a URL can be read on its way.
func isPlainHTTP(url string) bool {
	const scheme = "http://"
	return len(url) >= len(scheme) && strings.EqualFold(url[:len(scheme)], scheme)
}

// checkReceiver refuses a URL behind which nobody may be called, when it is new
// or new to the gateway. Agents call whom they reach.
func (s *server) checkReceiver(ctx context.Context, want, have eventhook.Subscription) error {
	isKnown := want.URL.Equal(have.URL) && !have.IsForAgents()
	if want.IsForAgents() || isKnown {
		return nil
	}
	if err := s.Receivers.CheckAddress(ctx, want.URL.Reveal()); err != nil {
		return invalid("body.url", err.Error())
	}
	return nil
}
