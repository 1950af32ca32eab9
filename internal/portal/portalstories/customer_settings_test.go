package portalstories_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// isSigned reports whether a secret signs a delivery. Source: https://www.standardwebhooks.com
func (c *customer) isSigned(d gatewaytest.Delivery, secret string) bool {
	c.t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		c.t.Fatalf("the secret %q: %v", secret, err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", d.Header.Get("Webhook-Id"), d.Header.Get("Webhook-Timestamp"), d.Body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return slices.Contains(strings.Fields(d.Header.Get("Webhook-Signature")), want)
}

func (c *customer) rotatesTheSecret() {
	before := c.secret
	c.ClickName("Rotate secret")
	gatewaytest.Confirm(c.Page, "The previous one stays valid for one day.")
	c.WaitText("h1", "New signing secret")
	c.WaitText("main", "The previous secret signs, too, until")
	c.secret = c.Text("#secret")
	c.publish()
	d := c.receives()
	if before == c.secret || !c.isSigned(d, before) || !c.isSigned(d, c.secret) {
		c.t.Errorf("the signature %q is not one of both secrets", d.Header.Get("Webhook-Signature"))
	}
	c.ClickName("Continue to the endpoint")
	c.WaitText("[aria-labelledby=settings]", "Both secrets sign until")
	if strings.Contains(c.Text("body"), c.secret) {
		c.t.Error("the secret is shown a second time")
	}
}

func (c *customer) pausesAndResumes() {
	c.ClickName("Pause")
	gatewaytest.Confirm(c.Page, "Deliveries are held until you resume it.")
	c.WaitText("#state", "paused")
	c.publish()
	c.ClickName("Resume")
	gatewaytest.Confirm(c.Page, "The held deliveries are sent now.")
	c.WaitText("#state", "active")
	c.receives()
}

func (c *customer) edits() {
	c.ClickName("Edit")
	c.WaitText("h1", "Edit Orders")
	c.Fill("#f-name", "Invoices")
	c.Click(`[value="invoice.created"]`)
	c.Fill("#f-headers", "X-Environment: production")
	c.ClickName("Save")
	c.WaitText(".notice.ok", "The endpoint was changed.")
	c.WaitText("h1", "Invoices")
	publish(c.t, c.n, globex, "invoice.created", invoice(1))
	if got := c.receiver.Next().Header.Get("X-Environment"); got != "production" {
		c.t.Errorf("the header X-Environment is %q, want production", got)
	}
}

func (c *customer) deletesIt() {
	c.ClickName("Delete endpoint")
	gatewaytest.Confirm(c.Page, "Delete Invoices?")
	c.WaitText(".notice.ok", "The endpoint Invoices was deleted.")
	c.WaitText("main", "No endpoints yet")
	_, err := c.n.Client.GetSubscription(c.t.Context(), c.n.Slug, c.id)
	if client.StatusOf(err) != 404 {
		c.t.Errorf("the deleted endpoint: %v, want 404", err)
	}
	if n := c.receiver.Unread(); n > 0 {
		c.t.Errorf("the endpoint got %d deliveries more than it should", n)
	}
}

func (c *customer) signsOut() {
	c.ClickName("Dark")
	c.WaitFor(`document.documentElement?.dataset.theme === "dark"`)
	c.ClickName("Sign out")
	c.WaitText("h1", "You are signed out")
	if n := c.Count("nav, footer"); n > 0 {
		c.t.Error("the page shows the portal after signing out")
	}
}
