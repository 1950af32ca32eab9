package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/eventhook/eventhook/client"
)

// gateway starts a fake gateway that answers with two pages of events and with a problem.
func gateway() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tenants/shop/eventhook/events", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			fmt.Fprint(w, `{"items":[{"id":"3","event_type":"invoice.paid"},{"id":"2","event_type":"invoice.sent"}],"next_cursor":"after-2"}`)
			return
		}
		fmt.Fprint(w, `{"items":[{"id":"1","event_type":"invoice.drawn"}],"next_cursor":null}`)
	})
	mux.HandleFunc("POST /api/tenants/shop/eventhook/sources", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"title":"Unprocessable Entity","status":422,"detail":"The request is not valid.",`+
			`"errors":[{"location":"body.secrets","message":"is required"}]}`)
	})
	return httptest.NewServer(mux)
}

func Example() {
	server := gateway()
	defer server.Close()
	c, err := client.New(server.URL, "ehk_the-key-of-the-shop")
	if err != nil {
		panic(err)
	}
	ctx := context.Background()

	for e, err := range c.AllEvents(ctx, "shop", client.ListEventsParams{Status: new(client.EventStatusFailed)}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(e.ID, e.EventType)
	}

	_, err = c.CreateSource(ctx, "shop", client.SourceCreate{Slug: "stripe", Provider: new("stripe")})
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		for _, f := range problem.Errors {
			fmt.Println(f.Location, f.Message)
		}
	}
	// Output:
	// 3 invoice.paid
	// 2 invoice.sent
	// 1 invoice.drawn
	// body.secrets is required
}
