package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli/plan"
)

// part is a group of tenants that one request applies.
type part struct {
	tenant string // slug of the only tenant; "" if there are several
	body   json.RawMessage
}

// overHTTP applies the tenants with a gateway. If they need several requests, all requests are
// planned before the first is applied.
func (a applyFlags) overHTTP(cmd *cobra.Command, c *client.Client, tenants []eventhook.TenantConfig) error {
	parts, err := partsOf(tenants, false)
	if err != nil {
		return err
	}
	apply := func(ctx context.Context, p part, dry bool) (client.ConfigurationPlan, error) {
		return c.ApplyConfigurationFrom(ctx, client.ApplyConfigurationParams{DryRun: &dry, Prune: &a.prune}, p.body)
	}
	first, err := apply(cmd.Context(), parts[0], true)
	if client.StatusOf(err) == http.StatusForbidden { // a key of a tenant
		if parts, err = partsOf(tenants, true); err != nil {
			return err
		}
		apply = func(ctx context.Context, p part, dry bool) (client.ConfigurationPlan, error) {
			return c.ApplyTenantConfigurationFrom(ctx, p.tenant,
				client.ApplyTenantConfigurationParams{DryRun: &dry, Prune: &a.prune}, p.body)
		}
		if len(parts) > 0 {
			first, err = apply(cmd.Context(), parts[0], true)
		}
	}
	if err != nil {
		return ofFiles(err)
	}
	plans := []client.ConfigurationPlan{first}
	for _, p := range parts[min(1, len(parts)):] {
		planned, err := apply(cmd.Context(), p, true)
		if err != nil {
			return ofFiles(err)
		}
		plans = append(plans, planned)
	}
	return a.print(cmd.OutOrStdout(), func(out *plan.Plan) error {
		for i, p := range parts {
			if !a.dry {
				if plans[i], err = apply(cmd.Context(), p, false); err != nil {
					return ofFiles(err)
				}
			}
			out.Add(changesOf(plans[i]))
			out.AddUnchanged(int(plans[i].Unchanged))
		}
		return nil
	})
}

// Limits of one request, below the gateway's limits.
const (
	maxPartBytes  = 1 << 20
	maxPartValues = 20_000
)

// partsOf groups tenants by the limits of a request, or puts each into a part of its own. There
// is at least one part unless each tenant is on its own.
func partsOf(tenants []eventhook.TenantConfig, isEach bool) (parts []part, err error) {
	var group []eventhook.TenantConfig
	size, values := 0, 0
	flush := func() error {
		raw, err := configs.EncodeTenants(group)
		p := part{body: raw}
		if len(group) == 1 {
			p.tenant = group[0].Slug
		}
		parts, group, size, values = append(parts, p), nil, 0, 0
		return err
	}
	for _, t := range tenants {
		raw, err := configs.EncodeTenants([]eventhook.TenantConfig{t})
		if err != nil {
			return nil, err
		}
		n := bytes.Count(raw, []byte{','}) + bytes.Count(raw, []byte{'{'}) + bytes.Count(raw, []byte{'['})
		if isFull := isEach || size+len(raw) > maxPartBytes || values+n > maxPartValues; isFull && len(group) > 0 {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		group, size, values = append(group, t), size+len(raw), values+n
	}
	if len(group) > 0 || !isEach {
		err = flush()
	}
	return parts, err
}

// changesOf returns the changes of a gateway's plan.
func changesOf(p client.ConfigurationPlan) (changes []eventhook.Change) {
	for _, c := range p.Changes {
		change := eventhook.Change{Action: eventhook.ChangeAction(c.Action), Kind: string(c.Resource), Name: c.Name}
		for _, f := range c.Diff {
			change.Fields = append(change.Fields, eventhook.FieldChange{Field: f.Field, From: asJSON(f.From), To: asJSON(f.To)})
		}
		changes = append(changes, change)
	}
	return changes
}

func asJSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // v was decoded from JSON
	return bytes.TrimSpace(b.Bytes())
}

// ofFiles returns an error of the gateway with locations in the files instead of the request.
func ofFiles(err error) error {
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok {
		return err
	}
	for i, f := range problem.Errors {
		problem.Errors[i].Location = strings.TrimPrefix(f.Location, "body.")
	}
	return err
}
