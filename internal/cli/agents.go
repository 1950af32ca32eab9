package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newAgents(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	return newNoun("agents", "Create, list, update and delete agents, and rotate their keys", `Create, list, update and delete agents, and rotate their keys. An agent is a program in a
network that the gateway cannot reach. It claims the deliveries to destinations whose
target labels it has, and sends them. NAME is the id of an agent or its name.

  eventhook agents create berlin-1 --label env:prod --label region:eu
  eventhook agents list                       which agents are online
  eventhook agents rotate-key berlin-1 --grace 1h`, r,
		newAgentsList(r), newAgentsGet(r), newAgentsCreate(r), newAgentsUpdate(r), newAgentsDelete(r), newAgentsRotateKey(r))
}

var agentColumns = []column[client.Agent]{
	{"NAME", func(a client.Agent) string { return a.Name }},
	{"STATUS", func(a client.Agent) string { return string(a.Status) }},
	{"LABELS", func(a client.Agent) string { return strings.Join(a.Labels, ", ") }},
	{"HELD", func(a client.Agent) string { return strconv.FormatInt(a.Held, 10) }},
	{"LAST SEEN", func(a client.Agent) string { return timeOr(a.LastSeenAt, "never") }},
	{"VERSION", func(a client.Agent) string { return textOf(a.Version) }},
	{"ID", func(a client.Agent) string { return a.ID }},
}

func newAgentsList(r *remote) *cobra.Command {
	var f listFlags
	cmd := r.verb("list", "List agents, newest first", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Agent, *string, error) {
			p, err := s.ListAgents(cmd.Context(), s.tenant, client.ListAgentsParams{Limit: limit, Cursor: cursor}, s.keepBody())
			return p.Items, p.NextCursor, err
		}, agentColumns)
	})
	f.addTo(cmd)
	return cmd
}

// agentID returns the id of the agent with this name or id, or of the newest one for latest.
func (s *session) agentID(ctx context.Context, name string) (string, error) {
	if isID(name) || name == latest {
		return latestID(name, "agents", func(limit *int64, _ *string) ([]client.Agent, *string, error) {
			p, err := s.ListAgents(ctx, s.tenant, client.ListAgentsParams{Limit: limit})
			return p.Items, nil, err
		}, func(a client.Agent) string { return a.ID })
	}
	for a, err := range s.AllAgents(ctx, s.tenant, client.ListAgentsParams{Limit: new(int64(maxPerPage))}) {
		if err != nil {
			return "", err
		}
		if a.Name == name {
			return a.ID, nil
		}
	}
	return "", fmt.Errorf("there is no agent %q; eventhook agents list shows all agents", terminal.Printable(name))
}

// agentVerb returns a command for the agent that its argument names.
func (r *remote) agentVerb(verb, short string, run func(cmd *cobra.Command, s *session, id string) error) *cobra.Command {
	return r.verb(verb+" NAME|latest", short, cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		id, err := s.agentID(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return run(cmd, s, id)
	})
}

func (s *session) showAgent(a client.Agent, err error) error {
	if err != nil {
		return err
	}
	return s.answer(func(w io.Writer) error { return printAgent(w, a) })
}

func printAgent(w io.Writer, a client.Agent) error {
	return printFields(w, field{"name", a.Name}, field{"id", a.ID}, field{"labels", strings.Join(a.Labels, ", ")}, field{"status", string(a.Status)},
		field{"last seen", timeOr(a.LastSeenAt, "never")}, field{"version", textOf(a.Version)},
		field{"held", fmt.Sprintf("%d deliveries", a.Held)}, field{"updated", terminal.Time(a.UpdatedAt)})
}

func newAgentsGet(r *remote) *cobra.Command {
	return r.agentVerb("get", "Show an agent", func(cmd *cobra.Command, s *session, id string) error {
		return s.showAgent(s.GetAgent(cmd.Context(), s.tenant, id, s.keepBody()))
	})
}

func (b *body) agentLabels() { b.texts("label", "labels", "label of the agent, such as env:prod") }

func newAgentsCreate(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("create NAME", "Create an agent; its key is shown only once", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readNamed("name", args)
		if err != nil {
			return err
		}
		created, err := s.CreateAgentFrom(cmd.Context(), s.tenant, raw, s.keepBody())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error {
			var a client.Agent
			if err := json.Unmarshal(s.raw, &a); err != nil {
				return fmt.Errorf("read the answer: %w", err)
			}
			if err := printAgent(w, a); err != nil {
				return err
			}
			s.sayAgentKey(created.Key)
			return nil
		})
	})
	b = newBody(cmd)
	b.agentLabels()
	cmd.Example = `  eventhook agents create berlin-1 --label env:prod --label region:eu
  eventhook subscription create billing --url http://10.1.2.3/in --type 'payment.*' --label region:eu`
	return cmd
}

// sayAgentKey prints the key of an agent and how to use it. The API returns the key only once.
func (s *session) sayAgentKey(key string) {
	s.Say("\nThe key of the agent, which is not shown again:\n  export EVENTHOOK_TENANT=%s EVENTHOOK_KEY=%s", s.tenant, key)
}

func newAgentsUpdate(r *remote) *cobra.Command {
	var b *body
	cmd := r.agentVerb("update", "Update the name or the labels of an agent", func(cmd *cobra.Command, s *session, id string) error {
		raw, err := b.readChange()
		if err != nil {
			return err
		}
		return s.showAgent(s.UpdateAgentFrom(cmd.Context(), s.tenant, id, client.UpdateAgentParams{}, raw, s.keepBody()))
	})
	b = newBody(cmd)
	b.text("name", "name", "new name")
	b.agentLabels()
	return cmd
}

func newAgentsDelete(r *remote) *cobra.Command {
	return deletes("agent", r.agentVerb("delete", "Delete an agent and its keys", func(cmd *cobra.Command, s *session, id string) error {
		if err := s.DeleteAgent(cmd.Context(), s.tenant, id, client.DeleteAgentParams{}); err != nil {
			return err
		}
		s.Say("The agent %s is deleted. Deliveries that it has claimed go to another agent when their lease expires.", id)
		return nil
	}))
}

func newAgentsRotateKey(r *remote) *cobra.Command {
	var grace time.Duration
	cmd := r.agentVerb("rotate-key", "Rotate the key of an agent; the new key is shown only once", func(cmd *cobra.Command, s *session, id string) error {
		done, err := s.RotateAgentKey(cmd.Context(), s.tenant, id, client.KeyRotation{GraceSeconds: new(int64(grace / time.Second))}, s.keepBody())
		if err != nil {
			return err
		}
		return s.answer(func(io.Writer) error {
			if done.PreviousExpiresAt == nil {
				s.Say("The previous key is not valid any more.")
			} else {
				s.Say("The previous key is valid until %s.", terminal.Time(*done.PreviousExpiresAt))
			}
			s.sayAgentKey(done.Key)
			return nil
		})
	})
	input.DurationVar(cmd.Flags(), &grace, "grace", 0, "how long the previous key is also valid; by default it ends at once")
	return cmd
}
