/*
 * Results of SimGrid for a small cluster, for test_simgrid.c: reads it from standard input, prints
 * the makespan (s) and the energy of all hosts (J). Options (--cfg=...) go to SimGrid.
 *
 *   host BYTES_PER_S LATENCY_S IDLE_W BUSY_W IDLE_W BUSY_W    each with a link of its own; powers
 * of its two speeds step HOST SPEED FLOP BYTES TO                             in turn for each
 * host: compute at a speed (0 or 1), then send, waiting job ARRIVAL_S SPEED FLOP instead: on any
 * free host, first come first served
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <simgrid/plugins/energy.h>
#include <simgrid/s4u.hpp>

namespace sg = simgrid::s4u;

struct Step {
    int speed;
    double flop, bytes;
    int to;
};

struct Job {
    double arrival_s;
    int speed;
    double flop;
};

static std::vector<sg::Host *> hosts;
static std::vector<std::vector<Step>> steps;
static std::vector<Job> jobs;
static std::vector<bool> is_busy;
static double last_end_s = 0.0;

static void read_cluster(sg::NetZone *zone)
{
    std::vector<sg::Link *> links;
    char word[16];

    while (std::scanf("%15s", word) == 1) {
        if (std::strcmp(word, "host") == 0) {
            double rate, latency, w[4];
            char text[200];
            if (std::scanf("%lf %lf %lf %lf %lf %lf", &rate, &latency, &w[0], &w[1], &w[2],
                           &w[3]) != 6)
                std::exit(2);
            const std::string name = "h" + std::to_string(hosts.size());
            std::snprintf(text, sizeof(text), "%.17g:%.17g:%.17g,%.17g:%.17g:%.17g", w[0], w[0],
                          w[1], w[2], w[2], w[3]);
            hosts.push_back(zone->create_host(name, std::vector<double>{1e12, 5e11}));
            hosts.back()->set_property("wattage_per_state", text);
            links.push_back(zone->create_link("l" + name, rate)->set_latency(latency)->seal());
            steps.emplace_back();
        } else if (std::strcmp(word, "step") == 0) {
            int host;
            Step step;
            if (std::scanf("%d %d %lf %lf %d", &host, &step.speed, &step.flop, &step.bytes,
                           &step.to) != 5)
                std::exit(2);
            steps[host].push_back(step);
        } else {
            Job job;
            if (std::scanf("%lf %d %lf", &job.arrival_s, &job.speed, &job.flop) != 3)
                std::exit(2);
            jobs.push_back(job);
        }
    }
    for (size_t a = 0; a < hosts.size(); a++)
        for (size_t b = a + 1; b < hosts.size(); b++)
            zone->add_route(hosts[a]->get_netpoint(), hosts[b]->get_netpoint(), nullptr, nullptr,
                            {sg::LinkInRoute(links[a]), sg::LinkInRoute(links[b])}, true);
    zone->seal();
}

static void note_end()
{
    last_end_s = std::max(last_end_s, sg::Engine::get_clock());
}

static void walk(size_t host)
{
    static int token;

    for (size_t i = 0; i < steps[host].size(); i++) {
        const Step &step = steps[host][i];
        hosts[host]->set_pstate(step.speed);
        sg::this_actor::execute(step.flop);
        sg::Mailbox::by_name(std::to_string(host) + "_" + std::to_string(i))
            ->put(&token, step.bytes);
        note_end();
    }
}

/* Whoever is sent something waits for it from the start: nobody who sends has to wait for that. */
static void listen(size_t host, size_t step)
{
    sg::Mailbox::by_name(std::to_string(host) + "_" + std::to_string(step))->get<int>();
}

static void run_job(size_t number, sg::SemaphorePtr free_hosts)
{
    const Job &job = jobs[number];
    size_t host = 0;

    sg::this_actor::sleep_until(job.arrival_s);
    free_hosts->acquire();
    while (is_busy[host])
        host++;
    is_busy[host] = true;
    hosts[host]->set_pstate(job.speed);
    sg::this_actor::set_host(hosts[host]);
    sg::this_actor::execute(job.flop);
    note_end();
    hosts[host]->set_pstate(0);
    is_busy[host] = false;
    free_hosts->release();
}

int main(int argc, char **argv)
{
    sg_host_energy_plugin_init();
    sg::Engine engine(&argc, argv);
    double joules = 0.0;

    read_cluster(sg::create_full_zone("zone"));
    is_busy.assign(hosts.size(), false);
    for (size_t host = 0; host < hosts.size(); host++) {
        for (size_t i = 0; i < steps[host].size(); i++)
            sg::Actor::create("listener", hosts[steps[host][i].to], listen, host, i);
        if (!steps[host].empty())
            sg::Actor::create("walker", hosts[host], walk, host);
    }
    const auto free_hosts = sg::Semaphore::create((unsigned)hosts.size());
    for (size_t i = 0; i < jobs.size(); i++)
        sg::Actor::create("job", hosts[0], run_job, i, free_hosts);
    engine.run();
    for (auto *host : hosts)
        joules += sg_host_get_consumed_energy(host);
    std::printf("%.12g %.12g\n", last_end_s, joules);
    return 0;
}
