// Package web contains what the web console and the customer portal share: the style sheet, the
// scripts, the template functions and components, the security headers of pages, and a transport
// with which a page calls the HTTP API of its own instance.
//
// Pages are html/template documents. Text from senders, such as payloads, headers and error
// messages, reaches a template as a string and is escaped there; this package creates markup from
// numbers and fixed text only. No page loads anything from another origin, and no page needs a
// build step: the files under static are served unchanged.
package web
