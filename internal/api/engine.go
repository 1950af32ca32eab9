package api

import (
	"encoding/json"
	"fmt"

	"github.com/eventhook/eventhook"
)

// checkEngines returns a fault for each target whose engine this program does not know.
func (s *server) checkEngines(list []eventhook.Target) (f eventhook.Faults) {
	if s.CheckEngine == nil {
		return nil
	}
	for i, t := range list {
		if err := s.CheckEngine(t); err != nil {
			f.Add(fmt.Sprintf("targets[%d].engine", i), "%s", err)
		}
	}
	return f
}

// warnOfEngines adds a warning for each target of a stored route whose engine this program does not know.
// Another build of the program has stored the route.
func (s *server) warnOfEngines(v *Route) error {
	list := make([]eventhook.Target, len(v.Targets))
	for i, t := range v.Targets {
		if err := json.Unmarshal(t.raw, &list[i]); err != nil {
			return fmt.Errorf("read a target: %w", err)
		}
	}
	for _, f := range s.checkEngines(list) {
		v.Warnings = append(v.Warnings, f.Location+": its deliveries wait: "+f.Message)
	}
	return nil
}
