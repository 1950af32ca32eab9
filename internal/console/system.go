package console

import "github.com/eventhook/eventhook/client"

var systemPages = []page{
	{pattern: "GET /console/system", template: "system", handle: (*Console).system},
}

// systemPage is the data of the page of the gateway's state.
type systemPage struct {
	client.System
	Work []systemQueue
}

// systemQueue is a queue of the gateway.
type systemQueue struct {
	Name string
	client.SystemQueue
}

func (c *Console) system(r *request) (view, error) {
	s, err := r.api.GetSystem(r.Context())
	return view{Title: "System", Data: systemPage{s, []systemQueue{{"Events to process", s.Queues.Events}, {"Deliveries", s.Queues.Deliveries}, {"Executions", s.Queues.Executions}}}}, err
}
