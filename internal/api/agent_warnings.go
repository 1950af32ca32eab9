package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// labelled is a destination with target labels, and the warnings of its resource.
type labelled struct {
	tenant   eventhook.TenantID
	of       string // of several destinations of the resource: which one
	labels   []string
	warnings *[]string
}

// warnOfAgents adds a warning to each subscription of a tenant whose target labels no agent has.
// It is no fault: the agent may be created later.
func (s *server) warnOfAgents(ctx context.Context, tenant eventhook.TenantID, views ...*Subscription) error {
	list := make([]labelled, len(views))
	for i, v := range views {
		list[i] = labelled{tenant, "", v.TargetLabels, &v.Warnings}
	}
	return s.warnOfLabels(ctx, list)
}

// warnOfTargets adds a warning to each route of a tenant with a target whose labels no agent has, or
// whose engine this program does not know.
func (s *server) warnOfTargets(ctx context.Context, tenant eventhook.TenantID, views ...*Route) error {
	var list []labelled
	for _, v := range views {
		for i, t := range v.Targets {
			var settings struct {
				Labels []string `json:"target_labels"`
			}
			if err := json.Unmarshal(t.raw, &settings); err != nil {
				return fmt.Errorf("read the settings of a target: %w", err)
			}
			list = append(list, labelled{tenant, fmt.Sprintf(" of targets[%d]", i), settings.Labels, &v.Warnings})
		}
		if err := s.warnOfEngines(v); err != nil {
			return err
		}
	}
	return s.warnOfLabels(ctx, list)
}

// warnOfLabels adds a warning for each destination whose labels no agent of its tenant has.
func (s *server) warnOfLabels(ctx context.Context, list []labelled) error {
	var tenants []eventhook.TenantID
	for _, d := range list {
		if len(d.labels) > 0 && !slices.Contains(tenants, d.tenant) {
			tenants = append(tenants, d.tenant)
		}
	}
	if len(tenants) == 0 {
		return nil
	}
	agents, err := s.Agents.AgentLabels(ctx, tenants)
	if err != nil {
		return err
	}
	for _, d := range list {
		isServed := slices.ContainsFunc(agents[d.tenant], func(labels []string) bool { return eventhook.Serves(labels, d.labels) })
		if len(d.labels) > 0 && !isServed {
			*d.warnings = append(*d.warnings, "No agent has the target_labels "+strings.Join(d.labels, ", ")+d.of+
				": nothing is sent until one does. Create an agent with these labels, or check their spelling.")
		}
	}
	return nil
}
