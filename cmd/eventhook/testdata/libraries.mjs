// Verifies webhooks at /PROVIDER with the library of the provider, and answers 200 or 401.
// /sign/PROVIDER answers a signature of the body. SECRETS is a JSON object. The first line of the
// output is the port.
import { createServer } from 'node:http'
import { sign, verify } from '@octokit/webhooks-methods'
import bolt from '@slack/bolt'
import Stripe from 'stripe'

const secrets = JSON.parse(process.env.SECRETS)
const stripe = new Stripe('sk_test_unused')

const signers = {
  github: body => sign(secrets.github, body),
  stripe: payload => stripe.webhooks.generateTestHeaderString({ payload, secret: secrets.stripe }),
}

const verifiers = {
  github: async (body, headers) => {
    if (!await verify(secrets.github, body, headers['x-hub-signature-256'])) throw new Error('no match')
  },
  slack: (body, headers) => bolt.verifySlackRequest({ signingSecret: secrets.slack, body, headers }),
  stripe: (body, headers) => stripe.webhooks.constructEvent(body, headers['stripe-signature'], secrets.stripe),
}

const server = createServer(async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const body = Buffer.concat(chunks).toString()
  const [, first, second] = request.url.split('/')
  if (first === 'sign') return response.end(await signers[second](body))
  try {
    await verifiers[first](body, request.headers)
    response.end('verified')
  } catch (err) {
    response.writeHead(401).end(String(err))
  }
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
