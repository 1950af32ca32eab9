package mcp

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventhook/eventhook/client"
)

var openAPI = sync.OnceValues(func() ([]byte, error) { return os.ReadFile("../../docs/openapi.json") })

// gateway answers the requests of a server and records them.
type gateway struct {
	mu       sync.Mutex
	requests []client.Request
	answer   string
	err      error
}

func (g *gateway) do(_ context.Context, r client.Request) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = append(g.requests, r)
	return []byte(g.answer), g.err
}

// newServer returns a server for the tenant acme. Its requests go to do.
func newServer(t *testing.T, allowWrites bool, do func(context.Context, client.Request) ([]byte, error)) *Server {
	t.Helper()
	document, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Version: "1.2.3", Document: document, Tenant: "acme", AllowWrites: allowWrites, Do: do})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// connect serves a client of the SDK until the test ends.
func connect(t *testing.T, s *Server) *mcp.ClientSession {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	ended := make(chan error, 1)
	go func() { ended <- s.serve(t.Context(), ours) }()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return session
}

// call calls a tool and returns the texts of its result.
func call(t *testing.T, session *mcp.ClientSession, name, arguments string) (texts []string, isError bool) {
	t.Helper()
	params := &mcp.CallToolParams{Name: name}
	if arguments != "" {
		params.Arguments = json.RawMessage(arguments)
	}
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, content := range result.Content {
		texts = append(texts, content.(*mcp.TextContent).Text)
	}
	return texts, result.IsError
}

// listTools returns the tools by their names.
func listTools(t *testing.T, session *mcp.ClientSession) map[string]*mcp.Tool {
	t.Helper()
	all := map[string]*mcp.Tool{}
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		all[tool.Name] = tool
	}
	return all
}
