package pg

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// A list that does not use a field of its filter would accept and ignore the field.
func TestEachFieldOfAFilterChangesItsList(t *testing.T) {
	tenant := eventhook.NewID[eventhook.Tenant](noon)
	var events eventhook.EventFilter
	checkFilterFields(t, &events, func() string {
		l := newEventList(tenant, events.SourceID, events)
		return fmt.Sprint(l.sql("e.id"), l.args)
	}, "Source") // DB.Events looks up the slug and passes the id
	var deliveries eventhook.DeliveryFilter
	checkFilterFields(t, &deliveries, func() string {
		from, before := deliveryBounds(deliveries)
		return fmt.Sprint(deliveryList(deliveries), deliveryListArgs(tenant, deliveries, from, before), newDeliveryScan(tenant, deliveries))
	}, "")
	var executions eventhook.ExecutionFilter
	checkFilterFields(t, &executions, func() string {
		return fmt.Sprint(executionListSQL(executions), executionListArgs(tenant, executions))
	}, "")
}

// checkFilterFields sets one field of *filter after the other and expects another list.
// skipped names a field that the caller of the list resolves.
func checkFilterFields[F any](t *testing.T, filter *F, list func() string, skipped string) {
	t.Helper()
	unfiltered := list()
	for field, value := range reflect.ValueOf(filter).Elem().Fields() {
		if field.Name == skipped {
			continue
		}
		switch v := value.Addr().Interface().(type) {
		case *time.Time:
			*v = noon
		case *int:
			*v = 7
		default:
			if value.Kind() == reflect.String {
				value.SetString("dead") // a status of every resource
			} else {
				value.Index(0).SetUint(1) // an id
			}
		}
		if list() == unfiltered {
			t.Errorf("%T: the list ignores %s", *filter, field.Name)
		}
		value.SetZero()
	}
}
