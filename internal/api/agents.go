package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// AgentStore stores agents and their keys. Its errors are those of SourceStore.
type AgentStore interface {
	Agent(ctx context.Context, tenant eventhook.TenantID, id eventhook.AgentID) (eventhook.Agent, error)
	// Agents lists a tenant's agents, newest first.
	Agents(ctx context.Context, tenant eventhook.TenantID, f eventhook.AgentFilter) ([]eventhook.Agent, error)
	// AgentLabels returns each combination of labels that an agent of one of the tenants has.
	AgentLabels(ctx context.Context, tenants []eventhook.TenantID) (map[eventhook.TenantID][][]string, error)
	CreateAgent(ctx context.Context, by eventhook.Actor, a eventhook.Agent, key eventhook.NewKey) (eventhook.Agent, error)
	UpdateAgent(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.AgentID, version int64,
		change func(eventhook.Agent) (eventhook.Agent, error)) (eventhook.Agent, error)
	DeleteAgent(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.AgentID, version int64) error
	// RotateAgentKey adds a key and ends the previous one after the grace period.
	RotateAgentKey(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.AgentID, key eventhook.NewKey,
		grace time.Duration) error
}

// Agent is an agent in responses.
type Agent struct {
	ID         string     `json:"id" format:"uuid"`
	Name       string     `json:"name" doc:"Display name, unique in the tenant."`
	Labels     []string   `json:"labels" doc:"Labels of the agent. It gets the deliveries to destinations whose target_labels are all among them."`
	Status     string     `json:"status" enum:"online,offline" doc:"offline: the agent has made no claim for 90 seconds."`
	LastSeenAt *time.Time `json:"last_seen_at" doc:"Time of the last claim, up to 15 seconds behind; null if the agent has made no claim."`
	Version    *string    `json:"version" doc:"Version of the agent's program, as the last claim stated it; null if it stated none."`
	Held       int        `json:"held" doc:"Number of deliveries that the agent has claimed and not reported, and whose lease has not expired."`
	CreatedAt  time.Time  `json:"created_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
}

// AgentCreated is the response to the creation of an agent.
type AgentCreated struct {
	Agent
	Key string `json:"key" doc:"The agent's API key, with the scope deliver. It is returned only once."`
}

// AgentCreate is an agent to be created.
type AgentCreate struct {
	Name   string   `json:"name" minLength:"1" maxLength:"200" example:"berlin-1" doc:"Display name, unique in the tenant."`
	Labels []string `json:"labels" minItems:"1" maxItems:"20" example:"[\"env:prod\",\"region:eu\"]" doc:"Labels of the agent, each key:value."`
}

// AgentPatch is a merge patch of an agent.
type AgentPatch struct {
	Name   string   `json:"name,omitempty" minLength:"1" maxLength:"200" doc:"Display name, unique in the tenant."`
	Labels []string `json:"labels,omitempty" minItems:"1" maxItems:"20" doc:"Labels of the agent, each key:value. Replaces the existing list. Deliveries that the agent has claimed stay with it."`
}

// KeyRotation is the request of the rotation of an agent's key.
type KeyRotation struct {
	GraceSeconds int `json:"grace_seconds,omitempty" minimum:"0" maximum:"604800" doc:"Seconds during which the previous key is also valid. 0 (default): the previous key ends at once."`
}

// KeyRotated is the response to the rotation of an agent's key.
type KeyRotated struct {
	Key               string     `json:"key" doc:"The new API key. It is returned only once."`
	PreviousExpiresAt *time.Time `json:"previous_expires_at" doc:"Until when the previous key is also valid; null if it ended at once."`
}

func (s *server) viewAgent(a eventhook.Agent) Agent {
	v := Agent{ID: a.ID.String(), Name: a.Name, Labels: list(a.Labels), Status: "offline", LastSeenAt: optionalUTC(a.LastSeenAt),
		Version: optional(a.ProgramVersion), Held: a.Held, CreatedAt: utc(a.CreatedAt), UpdatedAt: utc(a.UpdatedAt)}
	if a.IsOnline(s.Now()) {
		v.Status = "online"
	}
	return v
}

func (s *server) registerAgents(api huma.API) {
	op := func(id, method, path, summary string, scope eventhook.Scope) operation {
		return operation{id: id, method: method, path: base + "/agents" + path, summary: summary, scope: scope, tag: "agents"}
	}
	create := op("create-agent", http.MethodPost, "", "Create an agent", eventhook.ScopeManage)
	create.status, create.skipsShape = http.StatusCreated, true
	create.about = "An agent runs in a network that the gateway cannot reach, claims deliveries and sends them. The response contains its API key, which is returned only once."
	update := op("update-agent", http.MethodPatch, "/{id}", "Update an agent", eventhook.ScopeManage)
	update.skipsShape, update.about = true, "The body is a JSON merge patch: omitted members keep their value."
	remove := op("delete-agent", http.MethodDelete, "/{id}", "Delete an agent", eventhook.ScopeManage)
	remove.status, remove.about = http.StatusNoContent, "Deletes the agent and its keys. Deliveries that it has claimed go to another agent when their lease expires."
	rotate := op("rotate-agent-key", http.MethodPost, "/{id}/rotate-key", "Rotate the API key of an agent", eventhook.ScopeManage)
	rotate.skipsShape = true
	rotate.about = "At most two keys of an agent are valid at a time: a rotation during a rotation ends the older key at once. The response contains the new key, which is returned only once."
	register(s, api, create, s.createAgent)
	register(s, api, op("list-agents", http.MethodGet, "", "List agents", eventhook.ScopeRead), s.listAgents)
	register(s, api, op("get-agent", http.MethodGet, "/{id}", "Get an agent", eventhook.ScopeRead), s.getAgent)
	register(s, api, update, s.updateAgent)
	register(s, api, remove, s.deleteAgent)
	register(s, api, rotate, s.rotateAgentKey)
}

// AgentPath is the part of a path that identifies an agent.
type AgentPath struct {
	TenantPath
	ID string `path:"id" format:"uuid" doc:"Agent id."`
}

func (p AgentPath) agent() (eventhook.AgentID, error) {
	return eventhook.ParseID[eventhook.Agent](p.ID)
}

type agentAnswer struct {
	ETag string `header:"ETag" doc:"Version of the agent's name and labels, for If-Match."`
	Body Agent
}

type createAgentRequest struct {
	TenantPath
	Body document[AgentCreate]
}

type createdAgent struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag" doc:"Version of the agent's name and labels, for If-Match."`
	Body     AgentCreated
}

func (s *server) createAgent(ctx context.Context, by caller, in *createAgentRequest) (*createdAgent, error) {
	body, shape := in.Body.read(s)
	want := eventhook.Agent{TenantID: by.tenant, Name: body.Name, Labels: body.Labels}
	if err := combinedError(shape, inBody(want.Validate())); err != nil {
		return nil, err
	}
	key, stored := newStoredKey()
	a, err := s.Agents.CreateAgent(ctx, by.actor(), want, stored)
	if err != nil {
		return nil, err
	}
	return &createdAgent{pathTo(in.Tenant, "agents", a.ID.String()), etag(a.Version), AgentCreated{s.viewAgent(a), key}}, nil
}

// inBody returns faults with locations under body.
func inBody(faults eventhook.Faults) (located eventhook.Faults) {
	located.Merge("body", faults)
	return located
}

type agentsQuery struct {
	TenantPath
	PageQuery
}

func (s *server) listAgents(ctx context.Context, by caller, in *agentsQuery) (*page[Agent], error) {
	pages := s.pager("agents", by.tenant)
	before, err := cursorOf[eventhook.Agent](pages, in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := s.Agents.Agents(ctx, by.tenant, eventhook.AgentFilter{Before: before, Limit: in.Limit + 1})
	if err != nil {
		return nil, err
	}
	return newPage(pages, list, in.Limit, s.viewAgent, func(a eventhook.Agent) eventhook.AgentID { return a.ID }), nil
}

func (s *server) getAgent(ctx context.Context, by caller, in *AgentPath) (*agentAnswer, error) {
	id, err := in.agent()
	if err != nil {
		return nil, err
	}
	a, err := s.Agents.Agent(ctx, by.tenant, id)
	if err != nil {
		return nil, err
	}
	return &agentAnswer{etag(a.Version), s.viewAgent(a)}, nil
}

type updateAgentRequest struct {
	AgentPath
	IfMatch
	Body document[AgentPatch]
}

func (s *server) updateAgent(ctx context.Context, by caller, in *updateAgentRequest) (*agentAnswer, error) {
	id, err := in.agent()
	if err != nil {
		return nil, err
	}
	err = in.applyIfMatch(func(version int64) error {
		_, err := s.Agents.UpdateAgent(ctx, by.actor(), by.tenant, id, version, func(have eventhook.Agent) (eventhook.Agent, error) {
			body, shape, err := in.Body.mergePatched(s, AgentPatch{have.Name, have.Labels})
			if err != nil {
				return have, err
			}
			have.Name, have.Labels = body.Name, body.Labels
			return have, combinedError(shape, inBody(have.Validate()))
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	s.keys.invalidate(in.Tenant) // the cached key has the labels
	return s.getAgent(ctx, by, &in.AgentPath)
}

type deleteAgentRequest struct {
	AgentPath
	IfMatch
}

func (s *server) deleteAgent(ctx context.Context, by caller, in *deleteAgentRequest) (*struct{}, error) {
	id, err := in.agent()
	if err != nil {
		return nil, err
	}
	defer s.keys.invalidate(in.Tenant) // at once on this instance; other instances cache the key for keyAge
	return nil, in.applyIfMatch(func(version int64) error {
		return s.Agents.DeleteAgent(ctx, by.actor(), by.tenant, id, version)
	})
}

type rotateAgentKeyRequest struct {
	AgentPath
	Body *document[KeyRotation]
}

type keyRotatedAnswer struct{ Body KeyRotated }

func (s *server) rotateAgentKey(ctx context.Context, by caller, in *rotateAgentKeyRequest) (*keyRotatedAnswer, error) {
	id, err := in.agent()
	if err != nil {
		return nil, err
	}
	var body KeyRotation
	if in.Body != nil {
		var shape eventhook.Faults
		body, shape = in.Body.read(s)
		if err := combinedError(shape, nil); err != nil {
			return nil, err
		}
	}
	key, stored := newStoredKey()
	grace := time.Duration(body.GraceSeconds) * time.Second
	if err := s.Agents.RotateAgentKey(ctx, by.actor(), by.tenant, id, stored, grace); err != nil {
		return nil, err
	}
	s.keys.invalidate(in.Tenant)
	out := &keyRotatedAnswer{KeyRotated{Key: key}}
	if grace > 0 {
		out.Body.PreviousExpiresAt = new(utc(s.Now().Add(grace)))
	}
	return out, nil
}
