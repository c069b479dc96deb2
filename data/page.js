// The live page: parts that changed come by a stream and take the place of those that are shown.
(function () {
    'use strict';
    const state = document.getElementById('state');
    const pause = document.getElementById('pause');
    const template = document.createElement('template');
    let source = null;

    function replaceAll(live, fresh) {
        const focused = document.activeElement && document.activeElement.getAttribute('href');
        live.replaceWith(fresh);
        const again = focused && document.querySelector('a[href="' + CSS.escape(focused) + '"]');
        if (again) again.focus();
    }

    function show(html) {
        template.innerHTML = html;
        const fresh = template.content.getElementById('live');
        const live = document.getElementById('live');
        if (fresh.dataset.shape !== live.dataset.shape) {
            replaceAll(live, fresh);
            return;
        }
        const parts = live.querySelectorAll('[data-live]');
        fresh.querySelectorAll('[data-live]').forEach(function (part, index) {
            if (parts[index].innerHTML !== part.innerHTML) parts[index].innerHTML = part.innerHTML;
        });
    }

    function say(text) {
        if (state.textContent !== text) state.textContent = text;
    }

    function begin() {
        source = new EventSource('/api/v1/stream?as=html');
        source.addEventListener('page', function (event) {
            say('live');
            show(JSON.parse(event.data));
        });
        source.onerror = function () { say('the connection is lost; trying again'); };
        pause.textContent = 'Pause';
    }

    function end() {
        source.close();
        source = null;
        say('paused');
        pause.textContent = 'Go on';
    }

    pause.hidden = false;
    pause.addEventListener('click', function () { if (source) end(); else begin(); });
    window.addEventListener('pagehide', function () { if (source) end(); });
    window.addEventListener('pageshow', function () { if (!source) begin(); });
})();
