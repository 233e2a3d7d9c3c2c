//! HTTP: what Prometheus and a supervisor ask. It never acts itself.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::control::Service;

/// Serves until the future ends.
pub async fn serve(
    listener: TcpListener,
    service: Arc<Service>,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .with_state(service);
    axum::serve(listener, routes).with_graceful_shutdown(end).await
}

async fn metrics(State(service): State<Arc<Service>>) -> Response {
    match service.metrics_text().await {
        Ok(text) => {
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
        }
        // A scrape that fails shows as `up == 0`; old numbers would look like health.
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

/// Ready is who reaches the state, and schedules or stands by.
async fn ready(State(service): State<Arc<Service>>) -> Response {
    match service.reaches_state().await {
        Ok(standing) if standing.leads => "scheduling\n".into_response(),
        Ok(_) => "standing by\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}
