package configs

import (
	"encoding/json"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
)

type exportedSubscription struct {
	Name          string                       `json:"name"`
	URL           string                       `json:"url"`
	EventTypes    []string                     `json:"event_types"`
	Filter        json.RawMessage              `json:"filter,omitempty"`
	AuthHeader    string                       `json:"auth_header,omitempty"`
	Auth          *eventhook.Auth              `json:"auth,omitempty"`
	SigningSecret string                       `json:"signing_secret,omitempty"`
	Status        eventhook.SubscriptionStatus `json:"status,omitempty"`
	eventhook.SubscriptionSettings
}

// subscription returns one subscription of a tenant. The status disabled is left
// out, because no file configures it. isRepeated means that an earlier subscription
// has the same name.
func (e *export) subscription(tenant string, s eventhook.Subscription, isRepeated bool) (*yaml.Node, error) {
	owner := wordsOf(s.Name, "subscription")
	x := exportedSubscription{Name: s.Name, URL: e.secret(tenant, owner, "url", s.URL.Reveal()), EventTypes: s.EventTypes,
		Filter: s.Filter, SubscriptionSettings: s.SubscriptionSettings}
	if !s.AuthHeader.IsZero() {
		x.AuthHeader = e.secret(tenant, owner, "auth_header", s.AuthHeader.Reveal())
	}
	auth, err := eventhook.OpenAuth(s.Auth)
	if err != nil {
		return nil, err
	}
	if auth != nil {
		*auth = auth.MapSecrets(func(member, text string) string { return e.secret(tenant, owner, "auth_"+member, text) })
		x.Auth = auth
	}
	if len(s.Signing) > 0 {
		x.SigningSecret = e.secret(tenant, owner, "signing_secret", s.Signing[0].Secret.Reveal())
	}
	if s.Status == eventhook.SubscriptionPaused {
		x.Status = s.Status
	}
	n, err := e.toYAML(x)
	if err == nil && isRepeated {
		n.HeadComment = "# Another subscription has this name: rename one of them before you apply this file."
	}
	return n, err
}
