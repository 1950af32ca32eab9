package api

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/verify"
)

// Consume is where a source consumes messages: the type of the broker and the settings of that type. Package
// consumers defines the settings.
type Consume struct{ raw json.RawMessage }

// MarshalJSON implements json.Marshaler.
func (c Consume) MarshalJSON() ([]byte, error) { return c.raw.MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (c *Consume) UnmarshalJSON(raw []byte) error {
	c.raw = bytes.Clone(raw)
	return nil
}

// Schema implements huma.SchemaProvider, as that of Target.
func (Consume) Schema(r huma.Registry) *huma.Schema {
	return schemaOfKinds(r, "Consume", consumers.Types(), func(kind string) reflect.Type { return reflect.TypeOf(consumers.NewSettings(kind)) })
}

// Consumer is the state of a source that consumes messages.
type Consumer struct {
	Status   string    `json:"status" enum:"running,waiting,failed,stopped" doc:"running: an instance consumes the messages. waiting: the gateway takes no messages now. failed: the broker cannot be used; the gateway tries again. stopped: the source is disabled, or its tenant is not active."`
	Error    *string   `json:"error" doc:"Why it is not running; null if it is."`
	Since    time.Time `json:"since" doc:"When it got the status. Of stopped: when the disabled source, or the tenant that is not active, was last changed."`
	Instance *string   `json:"instance" doc:"Id of the instance of the gateway that consumes the messages; null if none does."`
	Lag      *int64    `json:"lag" doc:"Messages that wait at the broker, as far as the broker told it; null if it did not, or while the gateway is not connected."`
}

func viewConsumer(c eventhook.ConsumerState) *Consumer {
	v := &Consumer{Status: string(c.Status), Error: optional(c.Error), Since: utc(c.Since), Lag: c.Lag}
	if !c.Instance.IsZero() {
		v.Instance = optional(c.Instance.String())
	}
	return v
}

func viewConsume(t *eventhook.Target) *Consume {
	if t == nil {
		return nil
	}
	raw, _ := t.MarshalJSON() // a stored target is valid JSON
	return &Consume{raw}
}

// consumerStates returns the states of the sources that consume messages.
func (s *server) consumerStates(ctx context.Context, list []eventhook.Source) (map[eventhook.SourceID]eventhook.ConsumerState, error) {
	var ids []eventhook.SourceID
	for _, source := range list {
		if source.Consume != nil {
			ids = append(ids, source.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return s.Sources.ConsumerStates(ctx, ids)
}

// assignTo makes a source consume messages as the request says. A secret that is eventhook.Redacted keeps
// its stored value.
func (c Consume) assignTo(s *eventhook.Source, spec verify.Spec) (faults eventhook.Faults) {
	want, wrong := consumers.Parse(c.raw, nil)
	kept, lost := consumers.KeepSecrets(want, s.Consume)
	faults.Merge("consume", wrong)
	faults.Merge("consume", lost)
	faults = append(faults, consumers.Unused(s.SourceSettings, spec)...)
	if len(faults) > 0 {
		return faults
	}
	if err := consumers.AssignTo(s, kept); err != nil {
		faults.Add("consume", "cannot be stored")
	}
	return faults
}

// changesConsumeType reports whether a patch changes the type of the broker. The stored settings are of no use for
// another type.
func changesConsumeType(have *eventhook.Target, patch json.RawMessage) bool {
	var wanted struct{ Consume struct{ Type *string } }
	_ = json.Unmarshal(patch, &wanted) // the shape of the patch is checked elsewhere
	return have != nil && wanted.Consume.Type != nil && *wanted.Consume.Type != have.Type
}
