package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/eventhook/eventhook/client"
)

var agentPages = []page{
	{pattern: "GET /console/t/{tenant}/agents", template: "agents", handle: (*Console).agents},
	{pattern: "GET /console/t/{tenant}/new-agent", needs: "manage",
		template: "agent_new", handle: (*Console).newAgent, section: "Agents"},
	{pattern: "POST /console/t/{tenant}/new-agent", needs: "manage",
		template: "agent_new", handle: (*Console).createAgent, section: "Agents"},
	{pattern: "GET /console/t/{tenant}/agents/{id}", template: "agent", handle: (*Console).agent},
	{pattern: "POST /console/t/{tenant}/agents/{id}", needs: "manage",
		template: "agent", handle: (*Console).updateAgent},
	{pattern: "POST /console/t/{tenant}/agents/{id}/rotate-key", needs: "manage",
		template: "agent_key", handle: (*Console).rotateAgentKey},
	{pattern: "POST /console/t/{tenant}/agents/{id}/delete", needs: "manage", handle: (*Console).deleteAgent},
}

// agentList is the data of the list of agents.
type agentList struct {
	Agents []client.Agent
	Pager  pager
}

func (c *Console) agents(r *request) (view, error) {
	cursor, limit := r.cursor()
	found, err := r.api.ListAgents(r.Context(), r.tenant, client.ListAgentsParams{Cursor: cursor, Limit: limit})
	return view{Title: "Agents", Data: agentList{found.Items, r.pager(found.NextCursor)}}, err
}

// agentKey is the data of the page that shows the key of an agent, once.
type agentKey struct {
	Name, Path, Key string
	Server          string // URL of the gateway
	Rotated         *client.KeyRotated
}

// serverURL returns the URL of the gateway for programs: that of the sources, without their path.
func serverURL(r *request) string {
	if ingest, err := r.ingestURL(""); err == nil {
		if server, _, ok := strings.Cut(ingest, "/api/tenants/"); ok {
			return server
		}
	}
	return r.origin()
}

func (r *request) agentPath(id string) string { return r.base() + "/agents/" + url.PathEscape(id) }

func (c *Console) newAgent(r *request) (view, error) {
	return view{Title: "Register an agent", Data: r.formOf(nil, "name", "labels")}, nil
}

func (c *Console) createAgent(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, "name", "labels")
	made, err := r.api.CreateAgent(r.detached(), r.tenant, client.AgentCreate{Name: f.Get("name"), Labels: f.words("labels")})
	if err == nil {
		return view{Title: "Key of " + made.Name, Page: "agent_key", Data: agentKey{Name: made.Name, Path: r.agentPath(made.ID), Key: made.Key, Server: serverURL(r)}}, nil
	}
	if !f.refuse(err) {
		return view{}, err
	}
	return view{Title: "Register an agent", Data: f, Status: http.StatusUnprocessableEntity}, nil
}

// agentPage is the data of the page of an agent.
type agentPage struct {
	client.Agent
	Form form
}

func (c *Console) agent(r *request) (view, error) {
	var header http.Header
	a, err := r.api.GetAgent(r.Context(), r.tenant, r.PathValue("id"), client.KeepHeader(&header))
	if err != nil {
		return view{}, err
	}
	f := r.formOf(url.Values{"name": {a.Name}, "labels": {strings.Join(a.Labels, "\n")}, "etag": {header.Get("ETag")}}, "name", "labels")
	return view{Title: a.Name, Data: agentPage{a, f}}, nil
}

func (c *Console) updateAgent(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, "name", "labels")
	// A patch without labels keeps them, and the client omits an empty list.
	body, err := jsonOf(map[string]any{"name": f.Get("name"), "labels": f.words("labels")})
	if err != nil {
		return view{}, err
	}
	id := r.PathValue("id")
	if _, err = r.api.UpdateAgentFrom(r.detached(), r.tenant, id, client.UpdateAgentParams{IfMatch: f.text("etag")}, body); err == nil {
		return redirect(r.agentPath(id), "The agent is updated. Deliveries that it has claimed stay with it.")
	}
	if !f.refuse(err) {
		return view{}, err
	}
	a, err := r.api.GetAgent(r.Context(), r.tenant, id)
	return view{Title: a.Name, Data: agentPage{a, f}, Status: http.StatusUnprocessableEntity}, err
}

func (c *Console) rotateAgentKey(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f, id := r.formOf(nil), r.PathValue("id")
	a, err := r.api.GetAgent(r.Context(), r.tenant, id)
	if err != nil {
		return view{}, err
	}
	made, err := r.api.RotateAgentKey(r.detached(), r.tenant, id, client.KeyRotation{GraceSeconds: f.integer("grace_seconds")})
	return view{Title: "Key of " + a.Name, Data: agentKey{Name: a.Name, Path: r.agentPath(id), Key: made.Key, Server: serverURL(r), Rotated: &made}}, err
}

func (c *Console) deleteAgent(r *request) (view, error) {
	if err := r.api.DeleteAgent(r.detached(), r.tenant, r.PathValue("id"), client.DeleteAgentParams{}); err != nil {
		return view{}, err
	}
	return redirect(r.base()+"/agents", "The agent and its keys are deleted.")
}
