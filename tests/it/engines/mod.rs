mod lake;
mod reading;
mod sqlite;
