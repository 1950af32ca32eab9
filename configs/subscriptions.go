package configs

import (
	"fmt"
	"net/url"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
)

type subscriptionSpec struct {
	Name                           string          `yaml:"name"`
	URL                            string          `yaml:"url"`
	EventTypes                     []string        `yaml:"event_types"`
	Filter                         yaml.Node       `yaml:"filter"`
	AuthHeader                     string          `yaml:"auth_header"`
	Auth                           *eventhook.Auth `yaml:"auth"`
	SigningSecret                  string          `yaml:"signing_secret"`
	Status                         string          `yaml:"status"`
	eventhook.SubscriptionSettings `yaml:",inline"`
}

func (t tenantSpec) subscriptions(at string, r *references) (list []eventhook.Subscription) {
	if n := len(t.Subscriptions); n > eventhook.MaxSubscriptions {
		r.faults.Add(at+".subscriptions", "%d, at most %d are allowed", n, eventhook.MaxSubscriptions)
	}
	seen := map[string]bool{}
	for i, s := range t.Subscriptions {
		at := fmt.Sprintf("%s.subscriptions[%d]", at, i)
		once(seen, at+".name", s.Name, r.faults)
		list = append(list, s.config(at, r))
	}
	return list
}

// secretAt returns the secret that text refers to. If it cannot be read, secretAt
// adds a fault and returns placeholder, so that validation reports no second fault.
func (r *references) secretAt(at, text, placeholder string) eventhook.Secret {
	if text == "" {
		return eventhook.Secret{}
	}
	before := len(*r.faults)
	if text = r.secret(at, text); len(*r.faults) > before {
		text = placeholder
	}
	return eventhook.NewSecret(text)
}

// authAt returns an Auth whose secrets are references. If one cannot be read, authAt adds a
// fault and returns no Auth, so that validation reports no second fault.
func (r *references) authAt(at string, written *eventhook.Auth) eventhook.Secret {
	if written == nil {
		return eventhook.Secret{}
	}
	before := len(*r.faults)
	read := written.MapSecrets(func(member, text string) string { return r.secret(at+"."+member, text) })
	if len(*r.faults) > before {
		return eventhook.Secret{}
	}
	return read.Seal()
}

func (s subscriptionSpec) config(at string, refs *references) eventhook.Subscription {
	filter, faults := toJSON(&s.Filter)
	refs.faults.Merge(at+".filter", faults)
	c := eventhook.Subscription{Name: s.Name, EventTypes: s.EventTypes, Filter: filter, Status: eventhook.SubscriptionStatus(s.Status), SubscriptionSettings: s.SubscriptionSettings}
	c.URL, c.AuthHeader = refs.secretAt(at+".url", s.URL, "https://unread.example"), refs.secretAt(at+".auth_header", s.AuthHeader, "unread")
	c.Auth = refs.authAt(at+".auth", s.Auth)
	if s.SigningSecret != "" {
		c.Signing = []eventhook.SigningSecret{{Secret: refs.secretAt(at+".signing_secret", s.SigningSecret, "unread-and-so-not-checked")}}
	}
	refs.faults.Merge(at, c.Validate())
	switch c.Status {
	case "", eventhook.SubscriptionActive, eventhook.SubscriptionPaused:
	default:
		refs.faults.Add(at+".status", "%q, want %s or %s", s.Status, eventhook.SubscriptionActive, eventhook.SubscriptionPaused)
	}
	refs.conditions(at, eventhook.Route{Filter: filter, Transform: s.Transform})
	return c
}

// CheckReceivers returns an error that lists the subscriptions whose URL or token endpoint
// check refuses. It skips the URLs of subscriptions for agents, because agents send from
// their own network.
func CheckReceivers(tenants []eventhook.TenantConfig, check func(*url.URL) error) error {
	var f eventhook.Faults
	for _, t := range tenants {
		for _, s := range t.Subscriptions {
			if !s.IsForAgents() {
				checkReceiver(&f, t.Slug+"/"+s.Name+".url", s.URL.Reveal(), check)
			}
			if auth, err := eventhook.OpenAuth(s.Auth); err == nil && auth != nil {
				checkReceiver(&f, t.Slug+"/"+s.Name+".auth.token_url", auth.TokenURL, check)
			}
		}
	}
	return f.Err(errNotValid)
}

func checkReceiver(f *eventhook.Faults, at, to string, check func(*url.URL) error) {
	u, err := url.Parse(to)
	if err != nil || to == "" { // Validate has reported the URL
		return
	}
	if err := check(u); err != nil {
		f.Add(at, "%s", err)
	}
}
