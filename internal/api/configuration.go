package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// Configuration applies and exports the configuration of tenants as documents, in the format of
// the files of eventhook apply.
type Configuration interface {
	// ReadConfiguration returns the tenants of a JSON document. The faults have paths such as
	// tenants[0].slug. A secret that is a reference, such as ${NAME}, is a fault. The expressions are
	// compiled in the share of processor time of tenant, unless it is zero. KindRateLimited: the
	// share is used up.
	ReadConfiguration(ctx context.Context, tenant eventhook.TenantID, raw []byte) ([]eventhook.TenantConfig, eventhook.Faults, error)
	// ApplyConfiguration changes a tenant in one transaction. It returns the changes, and with
	// o.DryRun makes none of them.
	ApplyConfiguration(ctx context.Context, by eventhook.Actor, t eventhook.TenantConfig, o ApplyOptions) ([]eventhook.Change, error)
	// ExportConfiguration returns tenants as a JSON document without secrets. KindNotFound: a
	// tenant does not exist.
	ExportConfiguration(ctx context.Context, o ExportOptions) (json.RawMessage, error)
}

// ApplyOptions selects how a configuration is applied.
type ApplyOptions struct {
	DryRun bool // return the changes without making them
	Prune  bool // delete sources, routes and subscriptions that the configuration does not name
}

// ExportOptions selects what is exported.
type ExportOptions struct {
	Slugs         []string // of the tenants; none: all tenants that are not closed
	WithoutQuotas bool
}

// Limits of an applied configuration.
const (
	maxConfiguration       = 2 << 20 // bytes
	maxConfigurationValues = 30_000
	applyTimeout           = 60 * time.Second
)

// configurationCost is the memory for a document of n bytes.
func configurationCost(n int64) int64 {
	const bytesPerValue = 500
	return n*memoryPerByte + min(n, 2*maxConfigurationValues)/2*bytesPerValue
}

const aboutApply = "Creates and updates tenants, sources, routes and subscriptions as the body describes them, in the format of the files of eventhook apply as JSON. " +
	"Resources that the body does not name stay, unless prune is set; a tenant is never deleted. Applying the same body again changes nothing. " +
	"The gateway first plans all tenants, and then changes each in a transaction of its own. It resolves no references: a secret that is exactly ${NAME} or file:PATH is refused. " +
	"The body has at most 2 MiB."

func (s *server) registerConfiguration(api huma.API) {
	apply := operation{id: "apply-configuration", method: http.MethodPost, path: "/api/admin/apply", summary: "Apply configuration",
		tag: "admin", about: aboutApply,
		class: bulks, maxBody: maxConfiguration, skipsShape: true, cost: configurationCost}
	own := apply
	own.id, own.path, own.summary, own.scope, own.tag = "apply-tenant-configuration", base+"/apply",
		"Apply configuration of a tenant", eventhook.ScopeManage, "sources"
	own.about += " The body describes this tenant only. A tenant's key cannot set quotas."
	register(s, api, apply, s.applyAll)
	register(s, api, own, s.applyOwn)
	register(s, api, operation{id: "export-configuration", method: http.MethodGet, path: "/api/admin/export",
		summary: "Export configuration", tag: "admin",
		about: "Returns the configuration of all tenants that are not closed, or of one, as Apply configuration reads it. A text such as ${ACME_GITHUB_SECRET_1} stands for a secret; variables lists these names."}, s.exportAll)
	register(s, api, operation{id: "export-tenant-configuration", method: http.MethodGet, path: base + "/export",
		summary: "Export configuration of a tenant", tag: "sources", scope: eventhook.ScopeManage,
		about: "Returns the tenant's configuration as Apply configuration of a tenant reads it. A text such as ${ACME_GITHUB_SECRET_1} stands for a secret; variables lists these names. Quotas are returned to the admin key only."}, s.exportOwn)
}

// ConfigurationDocument is the configuration of tenants.
type ConfigurationDocument struct {
	Tenants   []jsonObject `json:"tenants" maxItems:"10000" doc:"Tenants with their sources, routes and subscriptions, with the fields of the API; docs/configuration-as-code.md describes them."`
	Variables []string     `json:"variables,omitempty" doc:"Names of the variables that stand for secrets in an export. Ignored when the document is applied."`
}

// ApplyQuery selects how a body is applied.
type ApplyQuery struct {
	DryRun bool `query:"dry_run" doc:"Return the plan and change nothing."`
	Prune  bool `query:"prune" doc:"Delete sources, routes and subscriptions of the named tenants that the body does not name."`
}

type applyRequest struct {
	ApplyQuery
	Body document[ConfigurationDocument]
}

type applyOwnRequest struct {
	TenantPath
	ApplyQuery
	Body document[ConfigurationDocument]
}

// configurationChange is one change of a plan.
type configurationChange struct {
	Action   string          `json:"action" enum:"create,update,delete"`
	Resource string          `json:"resource" enum:"tenant,source,route,subscription" doc:"Kind of the resource."`
	Name     string          `json:"name" example:"acme/github" doc:"Path of the resource: the tenant's slug, then the slug or name of the resource."`
	Diff     []auditedChange `json:"diff" doc:"Changed fields of an update. Secrets are never shown, only that they changed."`
}

type configurationPlan struct {
	Changes   []configurationChange `json:"changes" doc:"The changes, in the order in which they are made. Empty: the configuration matches already."`
	Unchanged int                   `json:"unchanged" doc:"Number of resources that match already."`
	Applied   bool                  `json:"applied" doc:"False for a dry run."`
}

type applyAnswer struct{ Body configurationPlan }

// add appends the changes of a tenant.
func (p *configurationPlan) add(changes []eventhook.Change) {
	for _, c := range changes {
		if c.Action == eventhook.ChangeUnchanged {
			p.Unchanged++
			continue
		}
		view := configurationChange{string(c.Action), c.Kind, c.Name, []auditedChange{}}
		for _, f := range c.Fields {
			view.Diff = append(view.Diff, auditedChange(f))
		}
		p.Changes = append(p.Changes, view)
	}
}

func (s *server) applyAll(ctx context.Context, by caller, in *applyRequest) (*applyAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	tenants, err := s.readConfiguration(ctx, by, in.Body.raw, nil)
	if err != nil {
		return nil, err
	}
	return s.applyTenants(ctx, by.onBehalf(), tenants, in.ApplyQuery)
}

func (s *server) applyOwn(ctx context.Context, by caller, in *applyOwnRequest) (*applyAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	tenants, err := s.readConfiguration(ctx, by, in.Body.raw, func(tenants []eventhook.TenantConfig) (faults eventhook.Faults) {
		if len(tenants) != 1 || tenants[0].Slug != in.Tenant {
			faults.Add("body.tenants", "must have one element, the tenant %s", in.Tenant)
			return faults
		}
		if q := tenants[0].Quota; !by.admin && (q.MaxEventsPerDay != nil || q.MaxStorageBytes != nil) {
			faults.Add("body.tenants[0]", "max_events_per_day and max_storage_bytes can be set with the admin key only")
		}
		return faults
	})
	if err != nil {
		return nil, err
	}
	return s.applyTenants(ctx, by.actor(), tenants, in.ApplyQuery)
}

// readConfiguration reads the tenants of a body. check returns further faults, if it is not nil.
func (s *server) readConfiguration(ctx context.Context, by caller, raw []byte,
	check func([]eventhook.TenantConfig) eventhook.Faults) ([]eventhook.TenantConfig, error) {
	if hasMoreValues(raw, maxConfigurationValues) {
		return nil, invalid("body", tooManyValues(maxConfigurationValues))
	}
	if faults := checkTexts(raw); len(faults) > 0 {
		return nil, combinedError(faults, nil)
	}
	tenants, found, err := s.Configuration.ReadConfiguration(ctx, by.tenant, raw)
	if err != nil {
		return nil, inTime(ctx, err)
	}
	var faults eventhook.Faults
	faults.Merge("body", found)
	if len(faults) == 0 && check != nil {
		faults = check(tenants)
	}
	return tenants, combinedError(faults, nil)
}

// applyTenants plans all tenants and then, unless it is a dry run, changes them one after the
// other.
func (s *server) applyTenants(ctx context.Context, by eventhook.Actor, tenants []eventhook.TenantConfig,
	in ApplyQuery) (*applyAnswer, error) {
	options := ApplyOptions{DryRun: true, Prune: in.Prune}
	if !in.DryRun && len(tenants) > 1 { // a conflict of a later tenant is found before any change
		if _, err := s.applyEach(ctx, by, tenants, options); err != nil {
			return nil, err
		}
	}
	options.DryRun = in.DryRun
	plan, err := s.applyEach(ctx, by, tenants, options)
	if err != nil {
		return nil, err
	}
	return &applyAnswer{*plan}, nil
}

func (s *server) applyEach(ctx context.Context, by eventhook.Actor, tenants []eventhook.TenantConfig,
	o ApplyOptions) (*configurationPlan, error) {
	plan := &configurationPlan{Changes: []configurationChange{}, Applied: !o.DryRun}
	for i, t := range tenants {
		changes, err := s.Configuration.ApplyConfiguration(ctx, by, t, o)
		if err != nil {
			return nil, describeApply(ctx, err, tenants, i, o)
		}
		if !o.DryRun {
			s.keys.invalidate(t.Slug) // its absence may be cached
		}
		plan.add(changes)
	}
	return plan, nil
}

// inTime returns err, or the refusal of a request that took longer than applyTimeout.
func inTime(ctx context.Context, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return &eventhook.Error{Kind: eventhook.KindUnavailable,
		Message: "The configuration could not be applied in time; apply fewer tenants at once.", RetryAfter: time.Second, Cause: err}
}

// describeApply adds to the error of tenant i its slug, and which tenants were applied.
func describeApply(ctx context.Context, err error, tenants []eventhook.TenantConfig, i int, o ApplyOptions) error {
	e, ok := errors.AsType[*eventhook.Error](inTime(ctx, err))
	if !ok || len(tenants) == 1 && len(e.Faults) > 0 {
		return err
	}
	described := *e
	described.Message = "Tenant " + tenants[i].Slug + ": " + e.Message
	if !o.DryRun && i > 0 {
		described.Message += " The tenants before it in the request were applied and stay applied; no other tenant was changed."
	}
	return &described
}

type exportQuery struct {
	Tenant string `query:"tenant" maxLength:"63" doc:"Slug of a tenant; default all."`
}

type exportAnswer struct{ Body ConfigurationDocument }

func (s *server) exportAll(ctx context.Context, _ caller, in *exportQuery) (*exportAnswer, error) {
	var o ExportOptions
	if in.Tenant != "" {
		o.Slugs = []string{in.Tenant}
	}
	return s.export(ctx, o)
}

func (s *server) exportOwn(ctx context.Context, by caller, in *TenantPath) (*exportAnswer, error) {
	return s.export(ctx, ExportOptions{Slugs: []string{in.Tenant}, WithoutQuotas: !by.admin})
}

func (s *server) export(ctx context.Context, o ExportOptions) (*exportAnswer, error) {
	raw, err := s.Configuration.ExportConfiguration(ctx, o)
	if err != nil {
		return nil, err
	}
	var out exportAnswer
	return &out, json.Unmarshal(raw, &out.Body)
}
