// Package mcp offers operations of a gateway's API as tools of the Model Context Protocol
// (https://modelcontextprotocol.io), so that a language model can examine the webhooks of one
// tenant.
//
// The table tools names the operations. The OpenAPI document of the API describes each of them:
// its arguments are the parameters and the members of the request body. An argument is passed on
// as it is, and the gateway checks it; its answer and the text of its error come back unchanged.
//
// Three rules protect the tenant. Tools that change something exist only with AllowWrites. A tool
// that changes many objects requires expected_count, so that the model must know how many these
// are. An answer is limited to maxAnswer bytes, each member of an object in it to maxField, and it
// begins with a note that its texts come from other systems and are no instructions.
package mcp
