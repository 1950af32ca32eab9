package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/eventhook/eventhook"
)

type completeManyRequest struct {
	TenantPath
	Body document[completeManyRequestBody]
}

type completeManyRequestBody struct {
	Items []completedItem `json:"items" minItems:"1" maxItems:"250" doc:"What is done. Of two with one id the first counts."`
}

type completedItem struct {
	ID         string          `json:"id" doc:"The execution's."`
	LeaseToken int64           `json:"lease_token"`
	Output     json.RawMessage `json:"output,omitempty"`
}

type completeManyAnswer struct {
	Body struct {
		Items []completion `json:"items"`
	}
}

// completion is what became of one item.
type completion struct {
	ID     string `json:"id" format:"uuid"`
	Status string `json:"status,omitempty" enum:"completed" doc:"If it was completed."`
	Error  string `json:"error,omitempty" doc:"Why it was not: its lease is lost, or the tenant has no such work."`
}

func (s *server) completeMany(ctx context.Context, who caller, in *completeManyRequest) (*completeManyAnswer, error) {
	body, err := in.Body.readAround(s, "items", "*", "output")
	if err != nil {
		return nil, err
	}
	list := make([]eventhook.Execution, len(body.Items))
	var bad eventhook.Faults
	for i, item := range body.Items {
		list[i] = eventhook.Execution{ID: idAt[eventhook.Execution](&bad, fmt.Sprintf("body.items[%d].id", i), item.ID),
			TenantID: who.tenant, Lease: eventhook.Lease{Token: item.LeaseToken}, Output: item.Output}
	}
	if err := malformed(bad); err != nil {
		return nil, err
	}
	answers, err := s.Work.CompleteAll(ctx, who.tenant, list)
	if err != nil {
		return nil, err
	}
	out := &completeManyAnswer{}
	completed := 0
	for i, x := range list {
		answer := completion{ID: x.ID.String()}
		if e, ok := errors.AsType[*eventhook.Error](answers[i]); ok {
			answer.Error = e.Message
		} else {
			answer.Status = string(eventhook.ExecutionCompleted)
			completed++
		}
		out.Body.Items = append(out.Body.Items, answer)
	}
	s.Worked("completed", completed)
	return out, nil
}
