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
	Items []completedItem `json:"items" minItems:"1" maxItems:"250" doc:"Executions to complete. If an id occurs twice, the first item counts."`
}

type completedItem struct {
	ID         string          `json:"id" doc:"Execution id."`
	LeaseToken int64           `json:"lease_token" doc:"Token of the lease, from claim."`
	Output     json.RawMessage `json:"output,omitempty" doc:"Result of the execution: any JSON value."`
}

type completeManyAnswer struct {
	Body struct {
		Items []completion `json:"items" doc:"One result per execution, in the order of the request."`
	}
}

// completion is the outcome for one item.
type completion struct {
	ID     string `json:"id" format:"uuid"`
	Status string `json:"status,omitempty" enum:"completed" doc:"Present if the execution was completed."`
	Error  string `json:"error,omitempty" doc:"Present if the execution was not completed: the lease is lost, or the execution does not exist."`
}

func (s *server) completeMany(ctx context.Context, by caller, in *completeManyRequest) (*completeManyAnswer, error) {
	body, err := in.Body.readWithRaw(s, "items", "*", "output")
	if err != nil {
		return nil, err
	}
	list := make([]eventhook.Execution, len(body.Items))
	var bad eventhook.Faults
	for i, item := range body.Items {
		list[i] = eventhook.Execution{ID: idAt[eventhook.Execution](&bad, fmt.Sprintf("body.items[%d].id", i), item.ID),
			TenantID: by.tenant, Lease: eventhook.Lease{Token: item.LeaseToken}, Output: item.Output}
	}
	if err := malformed(bad); err != nil {
		return nil, err
	}
	answers, err := s.Work.CompleteAll(ctx, by.tenant, list)
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
	s.OnWorkerAct("completed", completed)
	return out, nil
}
