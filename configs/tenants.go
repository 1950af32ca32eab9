package configs

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/targets"
	"github.com/eventhook/eventhook/verify"
)

// tenantsFile is the YAML document of a file of tenants. Its fields have the names
// of the API.
type tenantsFile struct {
	Tenants   []tenantSpec `yaml:"tenants"`
	Variables []string     `yaml:"variables"` // of an export as JSON; not used
}

type tenantSpec struct {
	Slug            string             `yaml:"slug"`
	Name            string             `yaml:"name"`
	MaxEventsPerDay *int64             `yaml:"max_events_per_day"`
	MaxStorageBytes *int64             `yaml:"max_storage_bytes"`
	Sources         []sourceSpec       `yaml:"sources"`
	Subscriptions   []subscriptionSpec `yaml:"subscriptions"`
}

type sourceSpec struct {
	Slug                     string      `yaml:"slug"`
	Name                     string      `yaml:"name"`
	IsEnabled                *bool       `yaml:"is_enabled"`
	Routes                   []routeSpec `yaml:"routes"`
	Consume                  yaml.Node   `yaml:"consume"`
	verify.Spec              `yaml:",inline"`
	eventhook.SourceSettings `yaml:",inline"`
}

type routeSpec struct {
	Name             string               `yaml:"name"`
	Priority         int                  `yaml:"priority"`
	IsEnabled        *bool                `yaml:"is_enabled"`
	FilterEventTypes []string             `yaml:"filter_event_types"`
	Filter           yaml.Node            `yaml:"filter"`
	FilterExpression string               `yaml:"filter_expression"`
	FilterFunction   string               `yaml:"filter_function"`
	Transform        *eventhook.Transform `yaml:"transform"`
	Targets          []yaml.Node          `yaml:"targets"`
}

// config converts the document to tenants and adds every fault with its path.
func (file tenantsFile) config(r *references) (tenants []eventhook.TenantConfig) {
	seen := map[string]bool{}
	for i, t := range file.Tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		once(seen, at+".slug", t.Slug, r.faults)
		tenants = append(tenants, t.config(at, r))
	}
	return tenants
}

// once adds a fault if name is in seen, and adds name to seen.
func once(seen map[string]bool, at, name string, f *eventhook.Faults) {
	if seen[name] {
		f.Add(at, "%q occurs twice", name)
	}
	seen[name] = true
}

func (t tenantSpec) config(at string, r *references) eventhook.TenantConfig {
	c := eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: t.Slug, Name: t.Name,
		Quota: eventhook.Quota{MaxEventsPerDay: t.MaxEventsPerDay, MaxStorageBytes: t.MaxStorageBytes}}}
	named := c.Tenant
	named.Name = orSlug(t.Name, t.Slug)
	r.faults.Merge(at, named.Validate())
	seen := map[string]bool{}
	for i, s := range t.Sources {
		at := fmt.Sprintf("%s.sources[%d]", at, i)
		once(seen, at+".slug", s.Slug, r.faults)
		c.Sources = append(c.Sources, s.config(at, r))
	}
	c.Subscriptions = t.subscriptions(at, r)
	return c
}

// orSlug returns name, or slug if name is empty.
func orSlug(name, slug string) string {
	if name == "" {
		return slug
	}
	return name
}

func (s sourceSpec) config(at string, r *references) eventhook.SourceConfig {
	c := eventhook.SourceConfig{Source: eventhook.Source{
		Slug: s.Slug, Name: orSlug(s.Name, s.Slug), IsEnabled: s.IsEnabled == nil || *s.IsEnabled, SourceSettings: s.SourceSettings,
	}}
	if !s.Consume.IsZero() && s.Consume.Tag != "!!null" {
		r.faults.Merge(at, s.assignConsume(at, &c.Source, r))
	} else {
		spec := s.Spec.MapSecrets(func(place, secret string) string { return r.secret(at+"."+place, secret) })
		r.faults.Merge(at, spec.AssignTo(&c.Source))
	}
	r.faults.Merge(at, c.Source.Validate())
	if n := len(s.Routes); n > eventhook.MaxRoutes {
		r.faults.Add(at+".routes", "%d, at most %d are allowed", n, eventhook.MaxRoutes)
	}
	targets := 0
	for _, r := range s.Routes {
		targets += len(r.Targets)
	}
	if targets > eventhook.MaxSourceTargets {
		r.faults.Add(at+".routes", "%d targets in all, at most %d are allowed", targets, eventhook.MaxSourceTargets)
	}
	seen := map[string]bool{}
	for i, spec := range s.Routes {
		at := fmt.Sprintf("%s.routes[%d]", at, i)
		once(seen, at+".name", spec.Name, r.faults)
		c.Routes = append(c.Routes, spec.config(at, r))
	}
	return c
}

// assignConsume makes a source consume messages.
func (s sourceSpec) assignConsume(at string, to *eventhook.Source, refs *references) (faults eventhook.Faults) {
	raw, wrong := flatJSON(&s.Consume)
	var want eventhook.Target
	if len(wrong) == 0 {
		want, wrong = consumers.Parse(raw, func(member, text string) string { return refs.secret(at+".consume."+member, text) })
	}
	faults.Merge("consume", wrong)
	kept, lost := consumers.KeepSecrets(want, nil)
	faults.Merge("consume", lost)
	faults = append(faults, consumers.Unused(s.SourceSettings, s.Spec)...)
	if len(faults) == 0 && consumers.AssignTo(to, kept) != nil {
		faults.Add("consume", "cannot be stored")
	}
	return faults
}

func (s routeSpec) config(at string, refs *references) eventhook.Route {
	f := refs.faults
	filter, faults := toJSON(&s.Filter)
	f.Merge(at+".filter", faults)
	list, targetFaults := s.targets(at, refs)
	r := eventhook.Route{Name: s.Name, Priority: s.Priority, IsEnabled: s.IsEnabled == nil || *s.IsEnabled, FilterEventTypes: s.FilterEventTypes,
		Filter: filter, FilterExpression: s.FilterExpression, FilterFunction: s.FilterFunction, Transform: s.Transform, Targets: list}
	f.Merge(at, r.Validate())
	f.Merge(at, targetFaults)
	refs.conditions(at, r)
	return r
}

// targets converts the targets of a route. A redacted secret is a fault, because a
// file has no stored secrets to keep.
func (s routeSpec) targets(at string, refs *references) (list []eventhook.Target, all eventhook.Faults) {
	for i, n := range s.Targets {
		place := fmt.Sprintf("targets[%d]", i)
		var t eventhook.Target
		raw, faults := flatJSON(&n)
		if len(faults) == 0 {
			t, faults = targets.Parse(raw, func(member, text string) string { return refs.secret(at+"."+place+"."+member, text) })
		}
		all.Merge(place, faults)
		list = append(list, t)
	}
	kept, faults := targets.KeepSecrets(list, nil)
	all.Merge("targets", faults)
	return kept, all
}
