package portalstories_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// offered are the event types of the gallery.
var offered = []struct{ name, category, description string }{
	{"invoice.created", "Invoices", "A draft invoice was created."},
	{"invoice.paid", "Invoices", "An invoice was paid in full."},
	{"invoice.overdue", "Invoices", "An invoice was not paid until its due date."},
	{"payment.failed", "Payments", "A charge was declined by the bank or the card network."},
	{"refund.created", "Payments", "Money is on its way back to the payer."},
}

// invoiceSchema is the schema of the data of the gallery's event types.
var invoiceSchema = gatewaytest.Must(parse(`{"type": "object", "required": ["id", "amount", "currency"], "properties": {
	"id": {"type": "string", "examples": ["inv_48210"]},
	"amount": {"type": "integer", "description": "In the smallest unit of the currency.", "examples": [9500]},
	"currency": {"type": "string", "examples": ["EUR"]},
	"due_date": {"type": "string", "format": "date"}}}`))

func parse(text string) (schema map[string]any, err error) {
	err = json.Unmarshal([]byte(text), &schema)
	return schema, err
}

// defineTypes adds the event types to the catalogue of a tenant.
func defineTypes(t *testing.T, n *gatewaytest.Tenant) {
	t.Helper()
	for _, o := range offered {
		gatewaytest.Must(n.Client.PutEventType(t.Context(), n.Slug, o.name, client.PutEventTypeParams{}, client.EventTypePut{
			Category: &o.category, Description: &o.description, Schema: invoiceSchema,
			Visibility: new(client.EventTypeVisibilityPortal)}))
	}
}

// publish publishes an event of a customer's scope.
func publish(t *testing.T, n *gatewaytest.Tenant, scope, kind, data string) {
	t.Helper()
	gatewaytest.Must(n.Client.PublishEvent(t.Context(), n.Slug, client.PublishEventParams{},
		client.EventPublish{EventType: kind, Data: json.RawMessage(data), Scope: new(json.RawMessage(`"` + scope + `"`))}))
}

// invoice is the data of an event.
func invoice(i int) string {
	return fmt.Sprintf(`{"id":"inv_%05d","number":"GLX-2026-%04d","amount":%d,"currency":"EUR",`+
		`"customer":{"name":"Globex GmbH","email":"ap@globex.example"},`+
		`"lines":[{"description":"Team plan","quantity":5,"unit_amount":1900}],"due_date":"2026-02-28"}`,
		48210+i, 118+i, 9500+i*700)
}

// deliveryOf waits for a delivery of an endpoint with a status, and returns its id. It asks again at once: the
// status follows the response of the receiver within milliseconds.
func deliveryOf(t *testing.T, n *gatewaytest.Tenant, endpoint string, status client.DeliveryStatus) string {
	t.Helper()
	for {
		params := client.ListSubscriptionDeliveriesParams{Status: &status}
		found := gatewaytest.Must(n.Client.ListSubscriptionDeliveries(t.Context(), n.Slug, endpoint, params))
		if len(found.Items) > 0 {
			return found.Items[0].ID
		}
	}
}
