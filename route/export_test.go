package route

import (
	"encoding/json"

	"github.com/eventhook/eventhook/internal/script"
)

// RunScriptsWith has scripts run by run. Call it before Run.
func (p *Processor) RunScriptsWith(run func(program script.Program, input []byte) (json.RawMessage, error)) {
	p.run = run
}
