package configs

import (
	"context"
	"fmt"
	"net/url"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

type subscriptionSpec struct {
	Name                           string    `yaml:"name"`
	URL                            string    `yaml:"url"`
	EventTypes                     []string  `yaml:"event_types"`
	Filter                         yaml.Node `yaml:"filter"`
	AuthHeader                     string    `yaml:"auth_header"`
	SigningSecret                  string    `yaml:"signing_secret"`
	Status                         string    `yaml:"status"`
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

// secretAt is what a secret stands for: instead, if it cannot be read, so that
// nothing else is said of it.
func (r *references) secretAt(at, text, instead string) eventhook.Secret {
	if text == "" {
		return eventhook.Secret{}
	}
	before := len(*r.faults)
	if text = r.secret(at, text); len(*r.faults) > before {
		text = instead
	}
	return eventhook.NewSecret(text)
}

func (s subscriptionSpec) config(at string, refs *references) eventhook.Subscription {
	filter, faults := toJSON(&s.Filter)
	refs.faults.Merge(at+".filter", faults)
	c := eventhook.Subscription{Name: s.Name, EventTypes: s.EventTypes, Filter: filter, Status: eventhook.SubscriptionStatus(s.Status), SubscriptionSettings: s.SubscriptionSettings}
	c.URL, c.AuthHeader = refs.secretAt(at+".url", s.URL, "https://unread.example"), refs.secretAt(at+".auth_header", s.AuthHeader, "unread")
	if s.SigningSecret != "" {
		c.Signing = []eventhook.SigningSecret{{Secret: refs.secretAt(at+".signing_secret", s.SigningSecret, "unread-and-so-not-checked")}}
	}
	refs.faults.Merge(at, c.Validate())
	switch c.Status {
	case "", eventhook.SubscriptionActive, eventhook.SubscriptionPaused:
	default:
		refs.faults.Add(at+".status", "%q, want %s or %s", s.Status, eventhook.SubscriptionActive, eventhook.SubscriptionPaused)
	}
	conditions, err := route.Check(context.Background(), eventhook.TenantID{}, eventhook.Route{Filter: filter}) // a filter is the same everywhere
	if err != nil {
		refs.faults.Add(at, "cannot be checked: %s", err)
	}
	refs.faults.Merge(at, conditions)
	return c
}

// CheckReceivers tells of each subscription to whose URL the gateway would not
// send. Agents send to whom they reach.
func CheckReceivers(tenants []eventhook.TenantConfig, check func(*url.URL) error) error {
	var f eventhook.Faults
	for _, t := range tenants {
		for _, s := range t.Subscriptions {
			u, err := url.Parse(s.URL.Reveal())
			if s.IsForAgents() || err != nil { // which was found fault with
				continue
			}
			if err := check(u); err != nil {
				f.Add(t.Slug+"/"+s.Name+".url", "%s", err)
			}
		}
	}
	return f.Err(errNotValid)
}
