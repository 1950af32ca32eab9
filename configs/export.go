package configs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/targets"
	"github.com/eventhook/eventhook/verify"
)

// ExportHeading is the first line of each exported file.
const ExportHeading = "# Configuration of tenants, for `eventhook apply`."

// Exporter writes tenants as files that LoadTenants reads, with variables in place
// of secrets. Variable names are unique among all files of an Exporter.
type Exporter struct{ taken map[string]bool }

// NewExporter returns an Exporter.
func NewExporter() *Exporter { return &Exporter{taken: map[string]bool{}} }

type exportedTenant struct {
	Slug            string `json:"slug"`
	Name            string `json:"name"`
	MaxEventsPerDay *int64 `json:"max_events_per_day,omitempty"`
	MaxStorageBytes *int64 `json:"max_storage_bytes,omitempty"`
}

type exportedSource struct {
	Slug      string          `json:"slug"`
	Name      string          `json:"name,omitempty"`
	IsEnabled *bool           `json:"is_enabled,omitempty"`
	Consume   json.RawMessage `json:"consume,omitempty"`
	verify.Spec
	eventhook.SourceSettings
	RateLimit eventhook.RateLimit   `json:"rate_limit,omitzero"` // omitted if empty
	Retry     eventhook.RetryPolicy `json:"retry,omitzero"`
}

type exportedRoute struct {
	Name             string               `json:"name"`
	Priority         int                  `json:"priority,omitempty"`
	IsEnabled        *bool                `json:"is_enabled,omitempty"`
	FilterEventTypes []string             `json:"filter_event_types,omitempty"`
	Filter           json.RawMessage      `json:"filter,omitempty"`
	FilterExpression string               `json:"filter_expression,omitempty"`
	FilterFunction   string               `json:"filter_function,omitempty"`
	Transform        *eventhook.Transform `json:"transform,omitempty"`
	Targets          []json.RawMessage    `json:"targets"`
}

// Export writes tenants in the given order as one file. It leaves out defaults and
// all secrets, including secrets from handshakes. The comment at the top lists the
// variables to set.
func (x *Exporter) Export(tenants []eventhook.TenantConfig) ([]byte, error) {
	e := export{Exporter: x}
	file, err := e.file(tenants)
	if err != nil {
		return nil, err
	}
	return e.print(file)
}

// file returns the document of a file.
func (e *export) file(tenants []eventhook.TenantConfig) (*yaml.Node, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, t := range tenants {
		n, err := e.tenant(t)
		if err != nil {
			return nil, fmt.Errorf("export tenant %s: %w", t.Slug, err)
		}
		list.Content = append(list.Content, n)
	}
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{plainText("tenants"), list}}, nil
}

// print returns the text of a file, with the comment at its top.
func (e *export) print(file *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(ExportHeading + "\n")
	if len(e.variables) > 0 {
		b.WriteString("# It contains no secrets. Set these variables before you apply it:\n")
		for _, name := range e.variables {
			b.WriteString("#   " + name + "\n")
		}
	}
	const indent = 2
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(indent)
	if err := enc.Encode(file); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return b.Bytes(), enc.Close()
}

// export holds the state of one file.
type export struct {
	*Exporter
	literal   bool // texts are not escaped
	reveals   bool // secrets are not replaced by references
	variables []string
}

func (e *export) tenant(t eventhook.TenantConfig) (*yaml.Node, error) {
	n, err := e.toYAML(exportedTenant{t.Slug, t.Name, t.Quota.MaxEventsPerDay, t.Quota.MaxStorageBytes})
	if err != nil {
		return nil, err
	}
	err = addList(n, "sources", t.Sources, func(s eventhook.SourceConfig) (*yaml.Node, error) { return e.source(t.Slug, s) })
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	return n, addList(n, "subscriptions", t.Subscriptions, func(s eventhook.Subscription) (*yaml.Node, error) {
		isRepeated := seen[s.Name]
		seen[s.Name] = true
		return e.subscription(t.Slug, s, isRepeated)
	})
}

func (e *export) source(tenant string, s eventhook.SourceConfig) (*yaml.Node, error) {
	spec, consume, err := e.input(tenant, s.Source)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", s.Slug, err)
	}
	n, err := e.toYAML(exportedSource{s.Slug, unlessSlug(s.Name, s.Slug), unlessTrue(s.IsEnabled), consume, spec, s.SourceSettings,
		s.RateLimit, s.Retry})
	if err != nil {
		return nil, err
	}
	if len(s.LearnedSecrets) > 0 {
		n.HeadComment = "# The provider sent the secret in its handshake. It is not part of this configuration."
	}
	return n, addList(n, "routes", s.Routes, func(r eventhook.Route) (*yaml.Node, error) { return e.route(tenant, s.Slug, r) })
}

// input returns how a source verifies webhooks, or where it consumes messages.
func (e *export) input(tenant string, s eventhook.Source) (spec verify.Spec, consume json.RawMessage, err error) {
	secret := func(place, secret string) string { return e.secret(tenant, s.Slug, place, secret) }
	if s.Consume != nil {
		consume, err = consumers.Format(*s.Consume, secret)
		return spec, consume, err
	}
	if spec, err = verify.ReadSpec(s.Verifier); err == nil {
		spec = spec.MapSecrets(secret)
	}
	return spec, nil, err
}

func (e *export) route(tenant, source string, r eventhook.Route) (*yaml.Node, error) {
	shown := make([]json.RawMessage, len(r.Targets))
	for i, t := range r.Targets {
		raw, err := targets.Format(t, func(member, secret string) string {
			return e.secret(tenant, source, fmt.Sprintf("%s_target_%d_%s", wordsOf(r.Name, "route"), i+1, member), secret)
		})
		if err != nil {
			return nil, fmt.Errorf("route %s/%s: target %d: %w", source, r.Name, i+1, err)
		}
		shown[i] = raw
	}
	return e.toYAML(exportedRoute{r.Name, r.Priority, unlessTrue(r.IsEnabled), r.FilterEventTypes, r.Filter, r.FilterExpression,
		r.FilterFunction,
		r.Transform, shown})
}

// secret returns a reference to a new variable for the secret at a path of a source or
// subscription, or the secret itself if the export reveals secrets.
func (e *export) secret(tenant, owner, place, text string) string {
	if e.reveals {
		return text
	}
	name := e.variable(tenant, owner, place)
	e.variables = append(e.variables, name)
	return reference + name
}

var nonWord = regexp.MustCompile(`[^A-Za-z0-9]+`)

// wordsOf returns the part of a name that a variable name may contain, or fallback
// if there is none.
func wordsOf(name, fallback string) string {
	return cmp.Or(strings.Trim(nonWord.ReplaceAllString(name, "_"), "_"), fallback)
}

// addList appends a list to an object unless the list is empty.
func addList[T any](object *yaml.Node, name string, list []T, one func(T) (*yaml.Node, error)) error {
	if len(list) == 0 {
		return nil
	}
	nodes := &yaml.Node{Kind: yaml.SequenceNode}
	for _, v := range list {
		n, err := one(v)
		if err != nil {
			return err
		}
		nodes.Content = append(nodes.Content, n)
	}
	object.Content = append(object.Content, plainText(name), nodes)
	return nil
}

func unlessSlug(name, slug string) string {
	if name == slug {
		return ""
	}
	return name
}

func unlessTrue(b bool) *bool {
	if b {
		return nil
	}
	return &b
}

var placeIndex = regexp.MustCompile(`s?\[(\d+)\]$`)

// variable returns a unique name for the secret at a path of a source, such as
// ACME_GITHUB_SECRET_1.
func (x *Exporter) variable(tenant, source, place string) string {
	place = strings.TrimPrefix(strings.TrimPrefix(place, "verifier."), "options.")
	if m := placeIndex.FindStringSubmatch(place); m != nil {
		var i int
		_, _ = fmt.Sscan(m[1], &i) // cannot fail: digits
		place = fmt.Sprintf("%s_%d", strings.TrimSuffix(place, m[0]), i+1)
	}
	base := strings.ToUpper(strings.ReplaceAll(tenant+"_"+source+"_"+place, "-", "_"))
	if base[0] >= '0' && base[0] <= '9' {
		base = "_" + base // a shell variable must not start with a digit
	}
	name := base
	for i := 2; x.taken[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	x.taken[name] = true
	return name
}
